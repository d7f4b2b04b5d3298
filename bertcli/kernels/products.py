"""The product of a Linear, whose gradients a CPU finds about as fast as the product itself."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from bertcli.kernels.cpu import kernels, rows
from bertcli.kernels.gpu import is_on_gpu

# T tokens, K what goes into a Linear, L what comes out
LARGE = 1 << 20  # weights from which on transposing pays
ROWS = 32  # what a kernel transposes comes in multiples of


def product(states: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """What nn.functional.linear does, [..., K] to [..., L], of tensors that fit the kernels, of a prepacked weight, or on a GPU."""
    if weight.is_mkldnn:
        found: Tensor = torch.ops.mkldnn._linear_pointwise(states, weight, bias, "none", [], "none")
        return found
    if is_on_gpu(states):
        return linear(states, weight, bias)
    found = _Product.apply(states, weight, bias)  # type: ignore[no-untyped-call]
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
    kernels().transpose(values, turned.view(torch.int64))
    return turned
