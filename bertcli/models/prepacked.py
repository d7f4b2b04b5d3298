"""Linear layers of a model that only predicts: weights in the order a CPU multiplies them in, GELU on the way."""

import torch
from torch import Tensor, nn
from transformers.activations import ACT2FN

# The activations that oneDNN computes with a product, and what it calls them.
GELUS = {type(ACT2FN["gelu"]): ("gelu", "none"), type(ACT2FN["gelu_pytorch_tanh"]): ("gelu", "tanh")}


class PrepackedLinear(nn.Module):
    """nn.Linear without a gradient: the weight is put in order once, where nn.Linear does it at each call."""

    def __init__(self, linear: nn.Linear, activation: str, algorithm: str) -> None:
        super().__init__()
        self.bias, self.activation, self.algorithm = linear.bias, activation, algorithm
        self.weight = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), None)

    def forward(self, input: Tensor) -> Tensor:
        """The layer, and its activation."""
        found: Tensor = torch.ops.mkldnn._linear_pointwise(
            input, self.weight, self.bias, self.activation, [], self.algorithm
        )
        return found


def prepack(model: nn.Module) -> None:
    """Put such layers in the place of every nn.Linear, where torch has oneDNN; the GELU after one becomes part of it."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return
    for parent in model.modules():
        for name, child in parent.named_children():
            if type(child) is nn.Linear:
                activation = type(getattr(parent, "intermediate_act_fn", None))
                if activation in GELUS:
                    parent.intermediate_act_fn = nn.Identity()
                setattr(parent, name, PrepackedLinear(child, *GELUS.get(activation, ("none", "none"))))
