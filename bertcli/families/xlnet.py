"""XLNet (Yang et al. 2019), which predicts tokens in random orders; positions are relative, and `<cls>` is last."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bertcli.families.bert import MINIATURES
from bertcli.families.family import LINEAR, Family, ModelSize, OptimizerRules

if TYPE_CHECKING:
    from transformers import PreTrainedModel

PAPER = "Yang et al. 2019, appendix A.4"
SIZES = {**MINIATURES, "base": ModelSize(12, 768, 12, "the released model"), "large": ModelSize(24, 1024, 16, PAPER)}


def _settings(size: ModelSize) -> dict[str, Any]:
    """The settings of the released models: GELU by tanh, LayerNorm with an epsilon of 1e-12, biases of each layer's own."""
    shape = {"d_model": size.hidden, "n_layer": size.layers, "n_head": size.heads, "d_inner": size.intermediate}
    return {**shape, "ff_activation": "gelu_pytorch_tanh", "layer_norm_eps": 1e-12, "use_mems_eval": False}


def _initialize(model: "PreTrainedModel") -> None:
    """Draw what stands for a predicted token as TensorFlow does where nothing is said: uniformly (Glorot & Bengio 2010)."""
    from torch import nn

    nn.init.xavier_uniform_(model.base_model.mask_emb[0])


# model_utils.py; the biases of queries decay, though other biases do not.
OPTIMIZER = OptimizerRules(schedule=LINEAR, final_rate=0.001, not_decayed=r"LayerNorm|layer_norm|(?<!r_[wrs]_)bias")
XLNET = Family(
    "XLNet",
    ("xlnet",),
    required={"attn_type": "bi", "summary_type": "last"},
    is_packed=True,
    sizes=SIZES,
    has_even_hidden_size=True,
    settings=_settings,
    has_types=lambda config: True,
    initialize=_initialize,
    cuts_new_weights=False,
    has_joint_spans=True,
    objectives=("permutation-lm",),
    vocabularies=("sentencepiece",),
    tokenizer_class="XLNetTokenizer",
    special_tokens=("<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>", "<eod>", "<eop>"),
    # 85 of 512 tokens
    data_defaults={"masked_lm_prob": 1 / 6, "max_predictions_per_seq": 85, "next_sentence": False, "dupe_factor": 3},
    optimizer=OPTIMIZER,
    finetuning=replace(OPTIMIZER, final_rate=0.0),
    finetuning_defaults={"max_answer_length": 64},  # run_squad.py
)
