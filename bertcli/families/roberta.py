"""RoBERTa (Liu et al. 2019) and the models with its architecture: XLM-R, CamemBERT, data2vec and others."""

from dataclasses import replace
from typing import Any

from bertcli.families.bert import LINES, SIZES
from bertcli.families.family import LINEAR, Family, ModelSize, OptimizerRules, starts_after_padding

TYPES = ("roberta", "roberta-prelayernorm", "xlm-roberta", "xlm-roberta-xl", "camembert", "data2vec-text")
POSITIONS = 512  # of tokens; two rows more, as the first position is 2


def _settings(size: ModelSize) -> dict[str, Any]:
    """The settings of fairseq's roberta_base: exact GELU, LayerNorm with an epsilon of 1e-5, no token types."""
    shape = {**size.settings, "max_position_embeddings": POSITIONS + 2, "type_vocab_size": 1}
    return {**shape, "hidden_act": "gelu", "layer_norm_eps": 1e-5, "bos_token_id": 0, "eos_token_id": 2}


# examples/roberta/config/pretraining/base.yaml and fairseq.optim.adam; all weights decay, gradients are not clipped.
OPTIMIZER = OptimizerRules(adam_beta2=0.98, max_grad_norm=0.0, schedule=LINEAR, not_decayed="", corrects_epsilon=False)
ROBERTA = Family(
    "RoBERTa",
    TYPES,
    is_packed=True,
    sizes=SIZES,
    settings=_settings,
    first_position=starts_after_padding,
    predict_tokens=lambda model, hidden: model.lm_head(hidden),
    has_pair_head=False,
    can_pretrain=lambda model: hasattr(model, "lm_head"),
    objectives=(*LINES, "mlm"),
    vocabularies=("byte-bpe", "sentencepiece"),
    tokenizer_class="RobertaTokenizer",
    special_tokens=("<s>", "<pad>", "</s>", "<unk>"),
    last_tokens=("<mask>",),
    data_defaults={"max_seq_length": POSITIONS, "masking": "dynamic", "dupe_factor": 1, "next_sentence": False},
    training_defaults={"optimizer": "adamw"},
    finetuning_defaults={"warmup_proportion": 0.06},
    head_settings={"classifier_dropout": 0.0},
    optimizer=OPTIMIZER,
    finetuning=replace(OPTIMIZER, weight_decay=0.1),  # examples/roberta/config/finetuning
    cuts_new_weights=False,
)
