"""XLNet (Yang et al. 2019), which predicts tokens in random orders; positions are relative, and `<cls>` is last."""

from typing import TYPE_CHECKING, Any

from bertcli.families.bert import MINIATURES
from bertcli.families.family import Family, ModelSize

if TYPE_CHECKING:
    pass

PAPER = "Yang et al. 2019, appendix A.4"
SIZES = {
    "tiny": ModelSize(2, 128, 2, MINIATURES),
    "mini": ModelSize(4, 256, 4, MINIATURES),
    "small": ModelSize(4, 512, 8, MINIATURES),
    "medium": ModelSize(8, 512, 8, MINIATURES),
    "base": ModelSize(12, 768, 12, "the released model"),
    "large": ModelSize(24, 1024, 16, PAPER),
}


def _settings(size: ModelSize) -> dict[str, Any]:
    """The settings of the released models: GELU by tanh, LayerNorm with an epsilon of 1e-12, biases of each layer's own."""
    shape = {"d_model": size.hidden, "n_layer": size.layers, "n_head": size.heads, "d_inner": size.intermediate}
    return {**shape, "ff_activation": "gelu_pytorch_tanh", "layer_norm_eps": 1e-12, "use_mems_eval": False}


XLNET = Family("XLNet", ("xlnet",), is_packed=True, sizes=SIZES, settings=_settings, has_types=lambda config: True)
