"""DistilBERT (Sanh et al. 2019): half of BERT's layers, without token types or pooler."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bertcli.families.family import LINEAR, Family, OptimizerRules

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

EMBEDDINGS = ("word_embeddings", "position_embeddings", "LayerNorm")
# A module of DistilBERT -> the same one of BERT; layers are numbered as in the student.
LAYER = {
    "attention.q_lin": "attention.self.query",
    "attention.k_lin": "attention.self.key",
    "attention.v_lin": "attention.self.value",
    "attention.out_lin": "attention.output.dense",
    "sa_layer_norm": "attention.output.LayerNorm",
    "ffn.lin1": "intermediate.dense",
    "ffn.lin2": "output.dense",
    "output_layer_norm": "output.LayerNorm",
}
HEAD = {"vocab_transform": "transform.dense", "vocab_layer_norm": "transform.LayerNorm", "vocab_projector": "decoder"}


def _predict_tokens(model: "PreTrainedModel", hidden: "Tensor") -> Any:
    return model.vocab_projector(model.vocab_layer_norm(model.activation(model.vocab_transform(hidden))))


DISTILBERT = Family(
    "DistilBERT",
    ("distilbert",),
    is_packed=True,
    predict_tokens=_predict_tokens,
    has_pair_head=False,
    can_pretrain=lambda model: hasattr(model, "vocab_transform"),
    optimizer=OptimizerRules(adam_beta2=0.98, weight_decay=0.0, max_grad_norm=5.0, schedule=LINEAR),  # train.py
)


def distilbert_names(layers: Sequence[int], has_head: bool = True) -> dict[str, str]:
    """The weight of a BERT, by its name, that each weight of a DistilBERT starts from.

    Token types and pooler have no place in it. The authors' script leaves out the transform of the head unless asked.
    """
    modules = {f"distilbert.embeddings.{name}": f"bert.embeddings.{name}" for name in EMBEDDINGS}
    for number, layer in enumerate(layers):
        for own, theirs in LAYER.items():
            modules[f"distilbert.transformer.layer.{number}.{own}"] = f"bert.encoder.layer.{layer}.{theirs}"
    modules |= {own: f"cls.predictions.{theirs}" for own, theirs in HEAD.items() if has_head}
    names = {f"{own}.{part}": f"{theirs}.{part}" for own, theirs in modules.items() for part in ("weight", "bias")}
    return {own: theirs for own, theirs in names.items() if not own.endswith("_embeddings.bias")}
