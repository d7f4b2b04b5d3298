"""For the time being: how models of a kind are named."""

from typing import Any

import transformers
from transformers import PretrainedConfig, PreTrainedModel

from bertcli.data.text.tokenization import WordPiece
from bertcli.errors import UserError
from bertcli.families import family_of
from bertcli.families.bert import BERT
from bertcli.models import heads
from bertcli.models.frozen import FrozenBertForTokenClassification
from bertcli.models.loading import build_model, load_model, open_config
from bertcli.models.model_with_loss import ModelWithLoss

PROBLEM_TYPES = {
    "classify": "single_label_classification",
    "regress": "regression",
    "multilabel": "multi_label_classification",
}
ARCHITECTURES = {
    "classify": "SequenceClassification",
    "choose": "MultipleChoice",
    "tag": "TokenClassification",
    "span": "QuestionAnswering",
    "pretrain": "PreTraining",
    "fill": "MaskedLM",
}


def with_loss(model: PreTrainedModel, kind: str) -> ModelWithLoss:
    """A model with the head and the loss of a kind."""
    losses = heads.pretraining_losses if kind == "pretrain" else heads.masked_lm_losses
    return ModelWithLoss(model, heads.pretraining_outputs, losses)


def auto_class(kind: str) -> Any:
    """The class of transformers that makes a model for a kind of task."""
    return getattr(transformers, f"AutoModelFor{ARCHITECTURES['classify' if kind in PROBLEM_TYPES else kind]}")


def load(kind: str | None, source: str, labels: dict[str, Any] | None = None, seed: int = 0) -> PreTrainedModel:
    """Load a model for a kind."""
    saved = open_config(source)
    layers = _saved_layers(saved) if labels is None else labels.get("frozen_layers")
    model_class = auto_class(kind) if kind else None
    if layers and kind in (None, "tag"):
        if not family_of(saved.model_type).is_original:
            raise UserError(
                f"The model `{source}` is a {saved.model_type}, not a BERT.", "Give --frozen a BERT, or leave it out."
            )
        model_class = FrozenBertForTokenClassification
    others = labels is not None and (
        kind_of(saved) != kind
        or saved.id2label != labels.get("id2label", saved.id2label)
        or _saved_layers(saved) != labels.get("frozen_layers")
    )
    return load_model(source, model_class, labels, others, seed)


def _saved_layers(saved: PretrainedConfig) -> str | None:
    frozen = FrozenBertForTokenClassification.__name__ in (saved.architectures or [])
    return str(saved.frozen_layers) if frozen else None


def kind_of(config: PretrainedConfig) -> str:
    """What a saved model does: a kind of task, `fill` for a masked LM, or nothing known."""
    architecture = (config.architectures or [""])[0]
    kind = next((kind for kind, name in ARCHITECTURES.items() if name in architecture), "")
    if kind != "classify":
        return "fill" if kind == "pretrain" else kind
    known = {problem: kind for kind, problem in PROBLEM_TYPES.items()}
    return known.get(config.problem_type, "regress" if config.num_labels == 1 else "classify")


def build(
    kind: str, size: str, tokenizer: WordPiece, labels: dict[str, Any], seed: int, deviation: float = 0.02
) -> Any:
    """Build a model of a kind with new weights."""
    model_class = FrozenBertForTokenClassification if labels.get("frozen_layers") else auto_class(kind)
    return build_model(model_class, BERT, size, tokenizer, {**labels, "initializer_range": deviation}, seed)
