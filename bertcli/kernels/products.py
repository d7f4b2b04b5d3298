"""Products of linear layers by the faster library, with weights in the order that it reads, and with what follows them."""

import math
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm, linear
from transformers.activations import ACT2FN

from bertcli.kernels import are_on, gpu, is_amd, multiplies_bfloat16
from bertcli.kernels.cpu import fits_many, loops, rows

# The activations that are a GELU, and whether by tanh.
GELUS = {type(ACT2FN["gelu"]): False, type(ACT2FN["gelu_pytorch_tanh"]): True, type(ACT2FN["gelu_new"]): True}

# T tokens, K what goes into a Linear, L what comes out
LARGE = 1 << 20  # weights from which on transposing pays
ROWS = 32  # what a kernel transposes comes in multiples of
TURNED = 1 << 19  # weights from which on oneDNN without AVX-512 is slow to read what is transposed
MANY_ROWS = 2048


def product(states: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """nn.functional.linear, [..., K] to [..., L], of tensors that fit the kernels, of a prepacked weight, or on a GPU."""
    if weight.is_mkldnn:
        return _by_onednn(states, weight, bias)
    if gpu.is_on_gpu(states):
        return linear(states, weight, bias)
    return cast(Tensor, _Product.apply(states, weight, bias))  # type: ignore[no-untyped-call]


def multiply(states: Tensor, weight: Tensor) -> Any:
    """States, [..., H], times a weight, [H, L], to [..., L]."""
    return product(states, weight.t()) if trains_faster(states, weight) else NotImplemented


def gelu_product(states: Tensor, weight: Tensor, bias: Tensor, is_tanh: bool) -> Tensor:
    """The GELU of a product with a prepacked weight, taken before the product is written."""
    return _by_onednn(states, weight, bias, "gelu", "tanh" if is_tanh else "none")


def added_product(states: Tensor, weight: Tensor, bias: Tensor, residual: Tensor) -> Tensor:
    """A product with a prepacked weight, added to a residual before it is written."""
    return cast(Tensor, torch.ops.mkldnn._linear_pointwise.binary(states, residual, weight, bias, "add"))


def _by_onednn(
    states: Tensor, weight: Tensor, bias: Tensor | None, activation: str = "none", algorithm: str = "none"
) -> Tensor:
    """A product and an activation by oneDNN; a prepacked or a transposed weight is read as it is."""
    return cast(Tensor, torch.ops.mkldnn._linear_pointwise(states, weight, bias, activation, [], algorithm))


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(states, weight)
        return _linear(states, weight, bias) if any(ctx.needs_input_grad) else linear(states, weight, bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        states, weight = ctx.saved_tensors
        reads_states, has_weight, has_bias = ctx.needs_input_grad
        of_states = _linear(gradient, weight.t()) if reads_states else None
        of_weight = _of_weight(rows(gradient), rows(states)) if has_weight else None
        return of_states, of_weight, rows(gradient).sum(0) if has_bias else None


def _linear(states: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """nn.functional.linear by the library that is faster here."""
    if not _suits_onednn(states, weight):
        return linear(states, weight, bias)
    turns = weight.numel() >= TURNED and not multiplies_bfloat16()
    return _by_onednn(states, weight.contiguous() if turns else weight, bias)


def trains_faster(states: Tensor, weight: Tensor) -> bool:
    """Whether training is faster by `product`; what only predicts is prepacked, or keeps torch's choice and its bits."""
    return torch.is_grad_enabled() and _suits_onednn(states, weight)


def _suits_onednn(states: Tensor, weight: Tensor) -> bool:
    is_plain = are_on() and all(each.dtype == torch.float32 and each.device.type == "cpu" for each in (states, weight))
    return is_plain and not torch.is_autocast_enabled("cpu") and states.shape[:-1].numel() >= onednn_rows()


def onednn_rows() -> float:
    """Rows from which on oneDNN is faster in float32 than MKL, torch's choice: few where MKL leaves AVX-512 unused."""
    return math.inf if not is_amd() else 0 if multiplies_bfloat16() else MANY_ROWS


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
    return cast(Tensor, torch.ops.mkldnn._reorder_linear_weight(weight.detach(), None))


def activated_product(hidden_states: Tensor, dense: nn.Linear, activation: nn.Module) -> Tensor | None:
    """The GELU of a product, [..., H] to [..., L], or None where no kernel does it."""
    is_tanh = GELUS.get(type(activation))
    if is_tanh is not None and dense.weight.is_mkldnn:
        return gelu_product(hidden_states, dense.weight, dense.bias, is_tanh)
    if is_tanh is None or not (torch.is_grad_enabled() and fits_many(hidden_states, dense.weight)):
        return None
    found: Tensor = _Gelu.apply(product(hidden_states, dense.weight), dense.bias, is_tanh)  # type: ignore[no-untyped-call]
    return found


def normed_product(
    hidden_states: Tensor, residual: Tensor, dense: nn.Linear, norm: nn.LayerNorm, next_mask: Callable[[int], Any]
) -> Tensor | None:
    """LayerNorm of the sum of a product with dropout, [..., L] to [..., H], and the residual, or None where no kernel does it."""
    if torch.is_grad_enabled() and gpu.fits(hidden_states):
        added = rows(linear(hidden_states, dense.weight, dense.bias))
        normed: Tensor = gpu.add_and_norm(added, rows(residual), norm, next_mask(len(added)))
        return normed.view(residual.shape)
    if dense.weight.is_mkldnn and (residual.dtype == torch.float32 or not fits_many(residual)):
        added = added_product(hidden_states, dense.weight, dense.bias, residual)
        return layer_norm(added, norm.normalized_shape, norm.weight, norm.bias, norm.eps)
    if not fits_many(hidden_states, residual, norm.weight):
        return None
    added = product(hidden_states, dense.weight)
    mask = next_mask(len(rows(added)))
    states = (added, dense.bias, residual, norm.weight, norm.bias)
    if not (torch.is_grad_enabled() or mask[1]):
        loops("inference").add_and_norm_in_place(*(rows(s) if s.dim() > 1 else s for s in states), norm.eps)
        return added
    return cast(Tensor, _AddAndNorm.apply(mask, norm.eps, *states))  # type: ignore[no-untyped-call]


def add_and_norm(attended: Tensor, states: Tensor, norm: nn.LayerNorm, mask: Any) -> Any:
    """LayerNorm of the sum of states, [T, H], and, after dropout, of what they attended to."""
    if not (torch.is_grad_enabled() and fits_many(attended, states, norm.weight)):
        return NotImplemented
    bias = norm.bias.new_zeros(norm.bias.shape)
    return _AddAndNorm.apply(mask, norm.eps, attended, bias, states, norm.weight, norm.bias)  # type: ignore[no-untyped-call]


class _Gelu(torch.autograd.Function):
    """GELU of a product and a bias; the slope, which is all that the backward pass reads, takes the product's memory."""

    @staticmethod
    def forward(ctx: Any, product: Tensor, bias: Tensor, is_tanh: bool) -> Tensor:
        activated = torch.empty_like(product)
        loops("elementwise").gelu(rows(product), bias, rows(activated), is_tanh)
        ctx.save_for_backward(product, bias)
        return activated

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        slope, bias = ctx.saved_tensors
        of_product, of_bias = torch.empty_like(slope), _sums(slope, 1)
        loops("elementwise").gelu_backward(rows(gradient), rows(slope), rows(of_product), of_bias[:, 0])
        return of_product, of_bias.sum((0, 1)).to(bias.dtype), None


class _AddAndNorm(torch.autograd.Function):
    """LayerNorm(dropout(product + bias) + residual)."""

    @staticmethod
    def forward(ctx: Any, mask: Any, epsilon: float, *states: Tensor) -> Tensor:
        product, bias, residual, weight, shift = states
        total, normed = torch.empty_like(product), torch.empty_like(product)
        moments = torch.empty(product.numel() // product.shape[-1], 2)
        given = (rows(product), bias, rows(residual), weight, shift)
        loops("elementwise").add_and_norm(*given, rows(total), rows(normed), moments, epsilon, mask)
        ctx.save_for_backward(total, moments, weight)
        ctx.mask = mask
        return normed

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        total, moments, weight = ctx.saved_tensors
        of_product, of_residual, sums = torch.empty_like(total), torch.empty_like(total), _sums(total, 3)
        given = (rows(gradient), rows(total), moments, weight)
        loops("elementwise").add_and_norm_backward(*given, rows(of_product), rows(of_residual), sums, ctx.mask)
        of_weight, of_shift, of_bias = sums.sum(0).to(weight.dtype)
        return None, None, of_product, of_bias, of_residual, of_weight, of_shift


def _sums(states: Tensor, count: int) -> Tensor:
    """Room for sums over blocks of rows, [blocks, count, H]."""
    return torch.zeros(-(-len(rows(states)) // loops("elementwise").ROWS), count, states.shape[-1])
