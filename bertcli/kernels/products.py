"""Products of linear layers on a CPU: gradients as fast as the product itself, and weights in the order it reads."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from bertcli.kernels import gpu
from bertcli.kernels.cpu import loops, rows

# T tokens, K what goes into a Linear, L what comes out
LARGE = 1 << 20  # weights from which on transposing pays
ROWS = 32  # what a kernel transposes comes in multiples of


def product(states: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """nn.functional.linear, [..., K] to [..., L], of tensors that fit the kernels, of a prepacked weight, or on a GPU."""
    if weight.is_mkldnn:
        found: Tensor = torch.ops.mkldnn._linear_pointwise(states, weight, bias, "none", [], "none")
        return found
    if gpu.is_on_gpu(states):
        return linear(states, weight, bias)
    found = _Product.apply(states, weight, bias)  # type: ignore[no-untyped-call]
    return found


def gelu_product(states: Tensor, weight: Tensor, bias: Tensor, is_tanh: bool) -> Tensor:
    """The GELU of a product with a prepacked weight, taken before the product is written."""
    found: Tensor = torch.ops.mkldnn._linear_pointwise(states, weight, bias, "gelu", [], "tanh" if is_tanh else "none")
    return found


def added_product(states: Tensor, weight: Tensor, bias: Tensor, residual: Tensor) -> Tensor:
    """A product with a prepacked weight, added to a residual before it is written."""
    found: Tensor = torch.ops.mkldnn._linear_pointwise.binary(states, residual, weight, bias, "add")
    return found


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(states, weight)
        return linear(states, weight, bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        states, weight = ctx.saved_tensors
        reads_states, has_weight, has_bias = ctx.needs_input_grad
        return (
            gradient @ weight if reads_states else None,
            _of_weight(rows(gradient), rows(states)) if has_weight else None,
            rows(gradient).sum(0) if has_bias else None,
        )


def _of_weight(gradient: Tensor, states: Tensor) -> Tensor:
    """The gradient of the weight, [L, K], of that of the product, [T, L], and what went in, [T, K].

    A bfloat16 product with both sides transposed takes twice as long as with one.
    """
    tokens, outputs = gradient.shape
    inputs = states.shape[1]
    suits = tokens % ROWS == 0 and inputs % ROWS == 0 and outputs * inputs >= LARGE
    if gradient.dtype != torch.bfloat16 or not suits:
        return gradient.t() @ states
    if tokens * outputs <= (tokens + outputs) * inputs:  # transposed in all, this way or the other
        return _transposed(gradient) @ states
    return _transposed(_transposed(states) @ gradient)


def _transposed(values: Tensor) -> Tensor:
    """[T, H] to [H, T], as a copy."""
    turned = values.new_empty(values.shape[1], values.shape[0])
    loops("elementwise").transpose(values, turned.view(torch.int64))
    return turned


class PrepackedLinear(nn.Module):
    """nn.Linear without a gradient: the weight is put in order once, where nn.Linear does it at each call."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.weight, self.bias = reordered(linear.weight), linear.bias

    def forward(self, input: Tensor) -> Tensor:
        """The layer."""
        return product(input, self.weight, self.bias)


def reordered(weight: Tensor) -> Tensor:
    """The weight of a Linear in the order that oneDNN reads."""
    ordered: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), None)
    return ordered
