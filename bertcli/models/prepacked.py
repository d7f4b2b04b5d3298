"""Linear layers of a model that only predicts: weights in the order a CPU multiplies them in, GELU on the way."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers.activations import ACT2FN


class PrepackedLinear(nn.Module):
    """nn.Linear without a gradient: the weight is put in order once, where nn.Linear does it at each call."""

    def __init__(self, linear: nn.Linear, activation: str) -> None:
        super().__init__()
        self.bias, self.activation = linear.bias, activation
        self.weight = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), None)

    def forward(self, input: Tensor) -> Tensor:
        """The layer, and its activation."""
        found: Tensor = torch.ops.mkldnn._linear_pointwise(input, self.weight, self.bias, self.activation, [], "none")
        return found


def prepack(model: nn.Module) -> None:
    """Put such layers in the place of every nn.Linear, where torch has oneDNN; the GELU after one becomes part of it."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return
    for parent in model.modules():
        for name, child in parent.named_children():
            if type(child) is nn.Linear:
                is_followed = type(getattr(parent, "intermediate_act_fn", None)) is type(ACT2FN["gelu"])
                if is_followed:
                    parent.intermediate_act_fn = nn.Identity()
                setattr(parent, name, PrepackedLinear(child, "gelu" if is_followed else "none"))
