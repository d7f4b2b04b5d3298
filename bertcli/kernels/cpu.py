"""What a CPU does by compiled loops, each function named like its plain twin, and which tensors suit them.

Numba is imported when the first tensors do.
"""

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bertcli import say
from bertcli.data.packing.sequences import Sequences

PRECISIONS = (torch.float32, torch.bfloat16)
MANY = 512  # tokens
LONG = 64  # tokens of a sequence: beyond, torch's own attention in bfloat16 is the slower one


def are_many(tokens: int) -> bool:
    """Whether a pass over tokens saves, where it makes no gradient, as much as it takes to load the kernels."""
    return torch.is_grad_enabled() or tokens >= MANY


def fits(*tensors: Tensor) -> bool:
    """Whether the kernels take the tensors: on a CPU, all of one precision, and not to be cast by autocast."""
    dtype = tensors[0].dtype
    return (
        all(each.device.type == "cpu" and each.dtype == dtype for each in tensors)
        and dtype in PRECISIONS
        and not torch.is_autocast_enabled("cpu")
        and _has_compiler()
    )


def fits_many(states: Tensor, *others: Tensor) -> bool:
    """Whether kernels take them, and the tokens of states, [..., H], are not too few."""
    return are_many(states.shape[:-1].numel()) and fits(states, *others)


def fits_tiles(states: Tensor) -> bool:
    """Whether the matrix units take the heads of states, [T, P, A, D], and the tokens are not too few."""
    suits = states.dtype == torch.bfloat16 and states.shape[-1] % 32 == 0
    return suits and fits_many(states[:, 0, 0]) and _has_tiles()


@cache
def _has_compiler() -> bool:
    try:
        import_module("bertcli.kernels.compiled")
    except (ImportError, OSError) as error:  # OSError: a library of it is broken
        say(f"a CPU is faster with numba: pip install numba ({str(error).splitlines()[0]})")
        return False
    return True


@cache
def _has_tiles() -> bool:
    """Whether there are matrix units, which Linux gives a process that asks."""
    return torch.cpu._is_amx_tile_supported() and torch.cpu._init_amx()


@cache
def loops(of: str) -> Any:
    """The module of compiled loops for `elementwise` functions, `attention`, or `inference`."""
    return import_module(f"bertcli.kernels.{of}_loops")


def rows(states: Tensor) -> Tensor:
    """[..., H] to [T, H], as kernels take it; what is contiguous is not copied."""
    return states.reshape(-1, states.shape[-1])


def drop(values: Tensor, mask: Any) -> Any:
    """Dropout by a mask, which is drawn again on the way back."""
    return _Drop.apply(values, mask) if fits(values) else NotImplemented  # type: ignore[no-untyped-call]


class _Drop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, mask: Any) -> Tensor:
        ctx.mask = mask
        return _masked(values, mask)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _masked(gradient, ctx.mask), None


def _masked(values: Tensor, mask: Any) -> Tensor:
    masked = torch.empty_like(values, memory_format=torch.contiguous_format)
    loops("elementwise").drop(rows(values), rows(masked), mask)
    return masked


def attention(sequences: Sequences, dropout: float, masks: Iterator[Any], scaling: float, *states: Tensor) -> Any:
    """Attention where torch's own is slower: to a gradient, or in bfloat16 over long sequences or by matrix units."""
    from bertcli.kernels.attention import attend_in_groups, attend_in_tiles

    has_gradient = torch.is_grad_enabled()
    if not (dropout or has_gradient) and fits_tiles(states[0]):
        return attend_in_tiles(torch.cat(states, 1) if len(states) > 1 else states[0], sequences, scaling)
    is_long = states[0].dtype == torch.bfloat16 and sequences.longest > LONG
    if not ((has_gradient or is_long) and fits_many(states[0][:, 0, 0])):
        return NotImplemented
    return attend_in_groups(states, sequences, masks, scaling)


def log_sums(logits: Tensor) -> Any:
    """Logarithms of the sums of exponentials: [M, V] to [M]."""
    if not fits(logits):
        return NotImplemented
    sums = torch.empty(len(logits))
    loops("attention").log_sums(logits, sums)
    return sums


def cross_entropy_gradient(logits: Tensor, labels: Tensor, sums: Tensor, factor: Tensor) -> Any:
    """The gradient of the logits, [M, V]."""
    if not fits(logits):
        return NotImplemented
    given = torch.empty_like(logits)
    loops("attention").cross_entropy_backward(logits, labels, sums, float(factor), given)
    return given


def gradient_norm(gradients: list[Tensor]) -> Any:
    """The norm of all gradients, from sums of squares in float32."""
    if not all(fits(gradient) for gradient in gradients):
        return NotImplemented
    return torch.cat([_square_sums(gradient) for gradient in gradients]).sum().sqrt()


def _square_sums(gradient: Tensor) -> Tensor:
    sums = torch.empty(-(-gradient.numel() // loops("elementwise").ELEMENTS))
    loops("elementwise").square_sums(gradient.reshape(-1), sums)
    return sums


def adam_step(optimizer: Any) -> Any:
    """The update of each weight, its moments and its copy in one pass."""
    if not fits(*(parameter for parameter, _, _ in optimizer.given())):
        return NotImplemented
    factor = 1 / float(optimizer.grad_scale)
    for parameter, gradient, group in optimizer.given():
        state, rate, (beta1, beta2) = optimizer.state[parameter], group["lr"], group["betas"]
        state["step"] += 1
        step = float(state["step"])
        of_gradient = (factor, beta1, 1 - beta1, beta2, 1 - beta2)
        of_step = (rate / (1 - beta1**step), (1 - beta2**step) ** -0.5, group["eps"], rate * group["weight_decay"])
        copy = optimizer.working_copy.of(parameter)
        arrays = (each.view(-1) for each in (parameter, gradient, state["exp_avg"], state["exp_avg_sq"], copy))
        loops("elementwise").adam(*arrays, tuple(map(np.float32, of_gradient + of_step)))
    return None
