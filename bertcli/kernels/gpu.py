"""What a GPU does by kernels that Triton compiles or torch brings, each function named like its plain twin."""

import math
import os
import shutil
import sysconfig
from functools import cache
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bertcli import say
from bertcli.data.packing.drawn_bits import signed
from bertcli.data.packing.sequences import Sequences
from bertcli.kernels.cpu import drop_by, loops

# T tokens, H what a layer is wide, A heads, D size per head, M masked tokens, V vocabulary

HALVES = (torch.bfloat16, torch.float16)
SIZES = (16, 32, 64, 128)  # of heads
# Of attention and its gradients: rows of a block, pairs of keys, warps, and stages of the pipeline that loads ahead.
SHAPES = {"attention": (128, 32, 8, 2), "attention_to_queries": (64, 32, 4, 2), "attention_to_keys": (32, 32, 4, 2)}
COLUMNS = 4096  # of a vocabulary at a time
PROGRAMS = 1024  # that share the rows of a LayerNorm's gradient


def is_on_gpu(states: Tensor) -> bool:
    """Whether states lie on a device other than the CPU."""
    return states.device.type != "cpu"


def fits(states: Tensor) -> bool:
    """Whether our kernels take states: on a GPU that Triton compiles for, and not to be cast by autocast."""
    return states.is_cuda and not torch.is_autocast_enabled("cuda") and _has_compiler()


@cache
def _has_compiler() -> bool:
    """Whether kernels can be compiled: it needs Triton, a C compiler, Python's headers, and a GPU that is not too old."""
    has_c = any(shutil.which(name) for name in (os.environ.get("CC", ""), "gcc", "clang"))
    has = bool(find_spec("triton")) and has_c and Path(sysconfig.get_path("include"), "Python.h").exists()
    if not has and _is_new():
        say("this GPU runs slower than it could: its kernels need Triton, a C compiler and Python's headers")
    return has and _is_new()


@cache
def _is_new() -> bool:
    """Whether this is a GPU of Ampere's generation or newer, which alone multiplies in bfloat16 and has flash attention."""
    return torch.cuda.get_device_capability() >= (8, 0)


def _key(mask: Any, device: torch.device) -> tuple[Any, ...]:
    """The names of rows on a device, both halves of the key, how many chances drop, and the scale."""
    key, dropped, scale, names = mask
    return names.to(device), signed(int(key) & 0xFFFFFFFF), signed(int(key) >> 32), dropped, float(scale)


def drop(values: Tensor, mask: Any) -> Any:
    """Dropout by a mask, which is drawn again in the backward pass."""
    return drop_by(_masked, values, mask) if fits(values) else NotImplemented


def _masked(values: Tensor, mask: Any) -> Tensor:
    values = values.contiguous()
    found, width = torch.empty_like(values), values.shape[-1]
    count, (names, *key) = values.numel() // max(width, 1), _key(mask, values.device)
    loops("gpu").drop[-(-count // 8), -(-width // 256)](values, found, names, count, *key, width, ROWS=8, COLUMNS=256)
    return found


def add_and_norm(attended: Tensor, states: Tensor, norm: Any, mask: Any) -> Any:
    """LayerNorm of the sum of states, [T, H], and, after dropout, of what is added to them."""
    if not (torch.is_grad_enabled() and fits(attended)):
        return NotImplemented
    return _AddAndNorm.apply(mask, norm.eps, attended, states, norm.weight, norm.bias)  # type: ignore[no-untyped-call]


class _AddAndNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, mask: Any, epsilon: float, *states: Tensor) -> Tensor:
        added, residual, gain, shift = (each.contiguous() for each in states)
        count, width = added.shape
        total, normed = torch.empty_like(added), torch.empty_like(added)
        moments = torch.empty(count, 2, dtype=torch.float32, device=added.device)
        given = (added, residual, gain, shift, total, normed, moments, *_key(mask, added.device), epsilon, width)
        loops("gpu").add_and_norm[(count,)](*given, COLUMNS=loops("gpu").triton.next_power_of_2(width))
        ctx.save_for_backward(total, moments, gain)
        ctx.mask = mask
        return normed

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        total, moments, gain = ctx.saved_tensors
        count, width = total.shape
        of_residual = torch.empty_like(total)
        of_added = torch.empty_like(total) if ctx.mask[1] else of_residual
        programs = min(count, PROGRAMS)
        sums = torch.empty(programs, 2, width, dtype=torch.float32, device=total.device)
        given = (gradient.contiguous(), total, moments, gain, of_added, of_residual, sums)
        numbers = (*_key(ctx.mask, total.device), count, width)
        columns = loops("gpu").triton.next_power_of_2(width)
        loops("gpu").add_and_norm_backward[(programs,)](*given, *numbers, COLUMNS=columns)
        of_gain, of_shift = sums.sum(0).to(gain.dtype)
        return None, None, of_added, of_residual, of_gain, of_shift


def log_sums(logits: Tensor) -> Any:
    """Logarithms of the sums of exponentials: [M, V] to [M]."""
    if not (fits(logits) and logits.stride(1) == 1):
        return NotImplemented
    sums = torch.empty(len(logits), dtype=torch.float32, device=logits.device)
    given = (logits, sums, logits.shape[1], logits.stride(0))
    loops("gpu").log_sums[(len(logits),)](*given, COLUMNS=COLUMNS, num_warps=8)
    return sums


def cross_entropy_gradient(logits: Tensor, labels: Tensor, sums: Tensor, factor: Tensor) -> Any:
    """The gradient of the logits, [M, V]."""
    if not (fits(logits) and logits.stride(1) == 1):
        return NotImplemented
    count, width = logits.shape
    found = logits.new_empty(count, width)
    given = (logits, labels, sums, factor.float().contiguous(), found, width, logits.stride(0))
    loops("gpu").cross_entropy_gradient[(count, -(-width // COLUMNS))](*given, COLUMNS=COLUMNS, num_warps=8)
    return found


def attention(sequences: Sequences, mask: Any, scaling: float, *states: Tensor) -> Any:
    """Flash attention, given the sequence boundaries: torch's, or ours where weights are dropped."""
    if not is_half_on_gpu(states[0]):
        return NotImplemented
    if mask[1]:
        takes = drops_weights(states[0], states[0].shape[-1])
        return _Attention.apply(sequences, mask, scaling, *states) if takes else NotImplemented  # type: ignore[no-untyped-call]
    ends, longest = sequences.boundaries, sequences.longest
    query, key, value = _of(states)
    return torch.ops.aten._flash_attention_forward(
        query, key, value, ends, ends, longest, longest, 0.0, sequences.is_causal, False, scale=scaling
    )[0]


def is_half_on_gpu(states: Tensor) -> bool:
    """Whether states are what flash attention takes."""
    return states.is_cuda and states.dtype in HALVES and _is_new()


def drops_weights(states: Tensor, size: int) -> bool:
    """Whether our flash attention, which drops weights, takes heads of this size in the precision of states."""
    return is_half_on_gpu(states) and fits(states) and size in SIZES


def _of(states: Any) -> list[Tensor]:
    """Query, key and value, [T, A, D] each."""
    return list(chain.from_iterable(each.unbind(1) for each in states))


class _Attention(torch.autograd.Function):
    """Flash attention (Dao et al. 2022) whose dropout is by rows and columns; the backward pass draws it again."""

    @staticmethod
    def forward(ctx: Any, sequences: Sequences, mask: Any, scaling: float, *states: Tensor) -> Tensor:
        states = tuple(each.contiguous() for each in states)
        parts = _of(states)
        tokens, heads, size = parts[0].shape
        context = parts[0].new_empty(tokens, heads, size)
        context[tokens - sequences.idle :] = 0
        sums = torch.empty(heads, tokens, dtype=torch.float32, device=context.device)
        ctx.sequences, ctx.mask, ctx.scaling = sequences, mask, scaling
        ctx.save_for_backward(context, sums, *states)
        _launch("attention", sequences, mask, scaling, (*parts, context, sums), ())
        return context

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        context, sums, *states = ctx.saved_tensors
        sequences, parts, gradient = ctx.sequences, _of(states), gradient.contiguous()
        found = [torch.empty_like(each) for each in states]
        for each in found:
            each[len(each) - sequences.idle :] = 0
        to_query, to_key, to_value = _of(found)
        deltas, given = torch.empty_like(sums), (sequences, ctx.mask, ctx.scaling, (*parts, context, sums))
        _launch("attention_to_queries", *given, (gradient, deltas, to_query, ctx.scaling))
        _launch("attention_to_keys", *given, (gradient, deltas, to_key, to_value, ctx.scaling))
        return None, None, None, *found


def _launch(
    name: str, sequences: Sequences, mask: Any, scaling: float, tensors: tuple[Tensor, ...], more: tuple[Any, ...]
) -> None:
    """Run a kernel of attention: a program for each block of each sequence, and head."""
    rows, pairs, warps, stages = SHAPES[name]
    query, context = tensors[0], tensors[3]
    tokens, heads, size = context.shape
    blocks = -(-sequences.lengths[0] // (2 * pairs if name == "attention_to_keys" else rows))
    names, *drawn = _key(mask, query.device)
    numbers = (*drawn, scaling / math.log(2), blocks, tokens, query.stride(0))
    shape = {"SIZE": size, "ROWS": rows, "PAIRS": pairs, "IS_CAUSAL": sequences.is_causal}
    kernel = getattr(loops("gpu_attention"), name)[(blocks * len(sequences.lengths), heads)]
    kernel(*tensors, names, sequences.boundaries, *numbers, *more, **shape, num_warps=warps, num_stages=stages)
