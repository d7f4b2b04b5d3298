"""ALBERT (Lan et al. 2020), whose layers share their weights, and whose embeddings are narrower than its layers."""

from typing import TYPE_CHECKING, Any

from bertcli.families.bert import MINIATURES
from bertcli.families.family import Family, ModelSize, OptimizerRules

if TYPE_CHECKING:
    from torch import Tensor, nn
    from transformers import PreTrainedModel

PAPER = "Lan et al. 2020, table 1"
SIZES = {
    **MINIATURES,
    "base": ModelSize(12, 768, 12, PAPER),
    "large": ModelSize(24, 1024, 16, PAPER),
    "xlarge": ModelSize(24, 2048, 16, f"{PAPER}; heads as in the released model"),
    "xxlarge": ModelSize(12, 4096, 64, PAPER),
}
EMBEDDING_SIZE = 128  # of the paper's models
# run_pretraining.py has 0.00176 for 4,096 instances a step; this is for 256, by the square root of the batch (You et al. 2020).
RATE = 4.4e-4


def _settings(size: ModelSize) -> dict[str, Any]:
    """The settings of the released models of version 2: no dropout but before a classifier.

    Embeddings are at least a sixth as wide as the layers, as in base, rounded up to a power of two; 128 at most, as in all.
    """
    shape = {**size.settings, "num_hidden_groups": 1, "inner_group_num": 1}
    shape["embedding_size"] = min(EMBEDDING_SIZE, 1 << (-(-size.hidden // 6) - 1).bit_length())
    dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "classifier_dropout_prob": 0.1}
    return {**shape, **dropout, "hidden_act": "gelu_new", "layer_norm_eps": 1e-12}


def _pool(base: "nn.Module", first: "Tensor") -> Any:
    """The pooler is a linear layer, with the activation in another module. [N, 1, H] to [N, H]."""
    return base.pooler_activation(base.pooler(first[:, 0]))  # type: ignore[operator]


def _predict_pair(model: "PreTrainedModel", first: "Tensor") -> Any:
    """The head for sentence order without dropout, as in the original. [N, 1, H] to [N, 2]."""
    return model.sop_classifier.classifier(_pool(model.base_model, first))


ALBERT = Family(
    "ALBERT",
    ("albert",),
    is_packed=True,
    sizes=SIZES,
    settings=_settings,
    pool=_pool,
    predict_tokens=lambda model, hidden: model.predictions(hidden),
    predict_pair=_predict_pair,
    has_joint_spans=True,
    can_pretrain=lambda model: hasattr(model, "sop_classifier"),
    objectives=("mlm+sop", "mlm+nsp", "mlm"),
    vocabularies=("sentencepiece", "wordpiece"),
    tokenizer_class="AlbertTokenizer",
    special_tokens=("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"),
    # create_pretraining_data.py
    data_defaults={"max_seq_length": 512, "dupe_factor": 40, "whole_word_mask": True, "ngram_mask": 3},
    training_defaults={"optimizer": "lamb", "learning_rate": RATE},
    optimizer=OptimizerRules(corrects_lamb=False, adapts_undecayed=False),  # lamb_optimizer.py
)
