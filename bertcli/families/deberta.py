"""DeBERTa (He et al. 2021), whose attention tells content and relative positions apart, and its version 3 (He et al. 2023)."""

from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING, Any

from bertcli.families.bert import MINIATURES
from bertcli.families.family import GENERATOR_SETTINGS, Family, ModelSize

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

PAPER = "He et al. 2021, table 10"
PAPER_3 = "He et al. 2023, section 5"
SIZES = {**MINIATURES, "base": ModelSize(12, 768, 12, PAPER), "large": ModelSize(24, 1024, 16, PAPER)}
SIZES_3 = {**MINIATURES, "xsmall": ModelSize(12, 384, 6, PAPER_3)}
SIZES_3 |= {name: replace(SIZES[name], source=PAPER_3) for name in ("base", "large")}
BUCKETS = 256  # of distances to each side, the farther ones logarithmic
# mlm.sh and rtd.sh: rows of 512 tokens of one stream.
DATA = {"max_seq_length": 512, "masking": "dynamic", "dupe_factor": 1, "next_sentence": False}


def _settings(size: ModelSize) -> dict[str, Any]:
    """The settings of the released models of version 1: no absolute positions in the input, no token types."""
    relative = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_biased_input": False}
    layers = {**size.settings, "hidden_act": "gelu", "layer_norm_eps": 1e-7}
    return {**layers, **relative, "type_vocab_size": 0, "legacy": False}


def _settings_3(size: ModelSize) -> dict[str, Any]:
    """The settings of rtd_base.json; the generator has half of the layers."""
    buckets = {"position_buckets": BUCKETS, "norm_rel_ebd": "layer_norm", "share_att_key": True}
    return {**_settings(size), **buckets, GENERATOR_SETTINGS: {"num_hidden_layers": max(1, size.layers // 2)}}


def _predict_tokens(model: "PreTrainedModel", hidden: "Tensor") -> Any:
    """The logits of the original's head, or of the one that transformers' `legacy` models have."""
    return model.cls(hidden) if model.config.legacy else model.lm_predictions(hidden, model.get_input_embeddings())


def _most_masked(options: Any) -> int:
    """The maximum number of masked tokens of a row, by its length (NGramMaskGenerator)."""
    return int(10 * ceil(options.max_seq_length * options.masked_lm_prob / 10))


DEBERTA = Family(
    "DeBERTa",
    ("deberta",),
    required={"talking_head": False},
    is_packed=True,
    sizes=SIZES,
    settings=_settings,
    predict_tokens=_predict_tokens,
    has_pair_head=False,
    can_pretrain=lambda model: hasattr(model, "lm_predictions") or hasattr(model, "cls"),
    cuts_new_weights=False,
    objectives=("masked-ngrams",),
    vocabularies=("byte-bpe",),
    tokenizer_class="DebertaTokenizer",
    special_tokens=("[PAD]", "[CLS]", "[SEP]", "[UNK]"),
    last_tokens=("[MASK]",),
    data_defaults={**DATA, "whole_word_mask": True, "max_predictions_per_seq": 80},
    finetuning_rates={768: 2e-5, 1024: 1e-5},  # experiments/glue
    differs="transformers has no mask decoder: it fills masks by the last layer, with other words than `bert predict`.",
)
DEBERTA_3 = replace(
    DEBERTA,
    name="DeBERTa-v3",
    model_types=("deberta-v2",),
    sizes=SIZES_3,
    settings=_settings_3,
    objectives=("rtd-gdes", "rtd-es", "rtd-none", "masked-ngrams"),
    vocabularies=("sentencepiece",),
    tokenizer_class="DebertaV2Tokenizer",
    vocabulary_defaults={"cased": True},
    data_defaults={**DATA, "mask_shares": "100,0,0", "max_predictions_per_seq": _most_masked},
    # Of rtd.sh: of xsmall for models narrower than base.
    training_defaults={"learning_rate": lambda asked: 3e-4 if asked.model_size.hidden < SIZES["base"].hidden else 1e-4},
    finetuning_rates={384: 4.5e-5, 768: 2e-5, 1024: 1e-5},
)
