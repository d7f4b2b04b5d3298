"""Linear layers of a model that only predicts: weights in the order a CPU multiplies them in."""

import torch
from torch import Tensor, nn

from bertcli.kernels.cpu import has_bfloat16_library
from bertcli.kernels.layers import SelfAttention
from bertcli.kernels.products import product


class PrepackedLinear(nn.Module):
    """nn.Linear without a gradient: the weight is put in order once, where nn.Linear does it at each call."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.weight, self.bias = _reordered(linear.weight), linear.bias

    def forward(self, input: Tensor) -> Tensor:
        """The layer."""
        return product(input, self.weight, self.bias)


def prepack(model: nn.Module) -> None:
    """Put such layers in the place of every nn.Linear; query, key and value become one product.

    A CPU without AVX-512 keeps what it has: there oneDNN, which reads the order, is the slower library in float32.
    """
    if not has_bfloat16_library():
        return
    for parent in model.modules():
        if isinstance(parent, SelfAttention) and parent.prepacked is None:
            weight, bias = parent.joined()
            parent.prepacked = (_reordered(weight), bias.detach())
            del parent.query, parent.key, parent.value
        for name, child in parent.named_children():
            if type(child) is nn.Linear:
                setattr(parent, name, PrepackedLinear(child))


def _reordered(weight: Tensor) -> Tensor:
    ordered: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), None)
    return ordered
