"""What a GPU does by kernels that torch compiles or brings, each function named like its plain twin."""

import os
import shutil
import sysconfig
from collections.abc import Callable
from functools import cache, wraps
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import gelu, layer_norm, linear

from bertcli import say
from bertcli.data.packing.drawn_bits import chances, hashes
from bertcli.data.packing.sequences import Sequences

# T tokens, H what a layer is wide, A heads, D size per head, M masked tokens, V vocabulary

BACKEND: Any = "inductor"  # of torch.compile
HALVES = (torch.bfloat16, torch.float16)


def is_on_gpu(states: Tensor) -> bool:
    """Whether states lie on a device other than the CPU."""
    return states.device.type != "cpu"


def compiles(states: Tensor) -> bool:
    """Whether functions of states are compiled: on a GPU, and not to be cast by autocast."""
    return states.is_cuda and not torch.is_autocast_enabled("cuda") and _has_compiler()


@cache
def _has_compiler() -> bool:
    """Whether torch can compile: it needs Triton, which takes no old GPUs, a C compiler and Python's headers."""
    has_c = any(shutil.which(name) for name in (os.environ.get("CC", ""), "gcc", "clang"))
    has_headers = Path(sysconfig.get_path("include"), "Python.h").exists()
    has = bool(find_spec("triton")) and torch.cuda.get_device_capability() >= (7, 0) and has_c and has_headers
    if not has:
        say("this GPU runs slower than it could: torch.compile needs Triton, a C compiler and Python's headers")
    return has


def compiled(function: Callable[..., Tensor]) -> Callable[..., Any]:
    """Have a function compiled where states are on a GPU that can: once for any number of rows of all its tensors.

    Weights, which always have as many, come in tuples. Elsewhere it returns NotImplemented.
    """
    by = cache(lambda backend: torch.compile(function, dynamic=False, backend=backend))

    @wraps(function)
    def call(states: Tensor, *others: Any) -> Any:
        if not compiles(states):
            return NotImplemented
        for each in (states, *others):
            if isinstance(each, Tensor) and each.dim():
                torch._dynamo.maybe_mark_dynamic(each, 0)
        return by(BACKEND)(states, *others)

    return call


@compiled
def linear_gelu(states: Tensor, weights: tuple[Tensor, Tensor], is_tanh: bool) -> Tensor:
    """[T, H] of a layer to [T, H] of its middle."""
    return gelu(linear(states, *weights), approximate="tanh" if is_tanh else "none")


def drop(values: Tensor, mask: Any) -> Any:
    """Dropout by a mask, [..., C]."""
    if not compiles(values):
        return NotImplemented
    rows = values.reshape(-1, values.shape[-1])
    torch._dynamo.maybe_mark_dynamic(rows, 1)  # those of attention weights are as many as a sequence is long
    key, dropped, scale, names = mask
    return _drop(rows, *hashes(int(key), names.to(values.device)), dropped, float(scale)).view(values.shape)


@compiled
def _drop(rows: Tensor, first: Tensor, second: Tensor, dropped: int, scale: float) -> Tensor:
    factors = torch.where(chances(first, second, rows.shape[1]) < dropped, 0.0, scale)
    return (rows * factors).to(rows.dtype)


def linear_add_and_norm(
    states: Tensor, residual: Tensor, weights: tuple[Tensor, ...], mask: Any, epsilon: float
) -> Tensor:
    """[T, H] of the middle, and of the residual, to [T, H], with dropout by a mask between."""
    key, dropped, scale, names = mask
    hashed = hashes(int(key), names.to(states.device))
    found: Tensor = _linear_add_and_norm(states, residual, weights, *hashed, (dropped, float(scale), epsilon))
    return found


@compiled
def _linear_add_and_norm(
    states: Tensor,
    residual: Tensor,
    weights: tuple[Tensor, ...],
    first: Tensor,
    second: Tensor,
    numbers: tuple[int, float, float],
) -> Tensor:
    (weight, bias, gain, shift), (dropped, scale, epsilon) = weights, numbers
    product = linear(states, weight, bias)
    if dropped:
        factors = torch.where(chances(first, second, product.shape[1]) < dropped, 0.0, scale)
        product = (product * factors).to(product.dtype)
    return layer_norm(product + residual, gain.shape, gain, shift, epsilon)


@compiled
def log_sums(logits: Tensor) -> Tensor:
    """Logarithms of the sums of exponentials: [M, V] to [M]."""
    return logits.float().logsumexp(1)


@compiled
def cross_entropy_gradient(logits: Tensor, labels: Tensor, sums: Tensor, factor: Tensor) -> Tensor:
    """The gradient of the logits, [M, V]."""
    shares = (logits.float() - sums[:, None]).exp()
    is_label = labels[:, None] == torch.arange(logits.shape[1], device=logits.device)
    return ((shares - is_label.float()) * factor).to(logits.dtype)


def attention(sequences: Sequences, mask: Any, scaling: float, *states: Tensor) -> Any:
    """Flash attention, given the sequence boundaries; what it drops would depend on how rows are batched."""
    if mask[1] or not is_half_on_gpu(states[0]):
        return NotImplemented
    ends, longest = sequences.boundaries, sequences.longest
    query, key, value = chain.from_iterable(each.unbind(1) for each in states)  # [T, A, D]
    return torch.ops.aten._flash_attention_forward(
        query, key, value, ends, ends, longest, longest, 0.0, sequences.is_causal, False, scale=scaling
    )[0]


def is_half_on_gpu(states: Tensor) -> bool:
    """Whether states are what flash attention takes."""
    return states.is_cuda and states.dtype in HALVES
