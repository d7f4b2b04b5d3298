"""Loops compiled for the CPU at hand by numba, and what an element of their arrays is: float32, or bfloat16 as uint16.

Numba keeps what it compiled beside the file it is of, and compiles again when that file changes, not one it imports: after
a change in what files of kernels import from each other or from here, `make clean`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import torch
from filelock import FileLock
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload
from torch import Tensor

from bertcli import say

F = np.float32
S = np.int32
U = np.uint32

# LLVM takes half of what AVX-512 has for vectors, unless told not to.
if (features := binding.get_host_cpu_features()).get("avx512f"):
    numba.config.CPU_FEATURES = features.flatten() + ",-prefer-256-bit"
# The OpenMP that torch brings is one for both: threads of two pools would wait in each other's way. When numba's start,
# they are as many as there are cores, and torch's with them.
numba.config.THREADING_LAYER_PRIORITY = ["omp", "tbb", "workqueue"]
threads = torch.get_num_threads()
numba.set_num_threads(1)
torch.set_num_threads(threads)
# Sums may be reordered, or there would be no vectors of them; what is no number stays none. A loop that sums must not write
# to an array: LLVM makes it twice, and takes vectors only where the arrays lie far enough apart, which differs from run to run.
OPTIONS = {"fastmath": {"reassoc", "contract", "nsz", "arcp"}, "error_model": "numpy", "cache": True, "nogil": True}
try:
    numba.njit(cache=True)(lambda: None)
except RuntimeError:  # no folder that it may write to
    OPTIONS["cache"] = False
    say("each run compiles its kernels, for want of a folder to keep them in: NUMBA_CACHE_DIR may name one")

# What is done to a row: its arrays have one axis, and come as arguments, or LLVM makes no vectors. It becomes part of each
# kernel, or the process that compiles would call another copy, which may add up in another order, than those that load.
row_loop = numba.njit(forceinline=True, **OPTIONS)
scalar = numba.njit(inline="always", **OPTIONS)  # what becomes part of such a loop


def kernel(function: Callable[..., Any]) -> Callable[..., None]:
    """Compile blocks that threads share, as many as torch has; what is called takes tensors for arrays."""
    compiled = numba.njit(parallel=True, **OPTIONS)(function)
    if compiled.stats.cache_path:
        compiled.compile = _in_turn(compiled)

    def call(*arguments: Any) -> None:
        numba.set_num_threads(min(torch.get_num_threads(), numba.config.NUMBA_NUM_THREADS))
        compiled(*(_array(each) if isinstance(each, Tensor) else each for each in arguments))

    return call


def _in_turn(compiled: Any) -> Callable[..., Any]:
    """Have a process wait for another that compiles the same kernel, and load what it kept."""
    compile_or_load = compiled.compile
    lock = FileLock(Path(compiled.stats.cache_path) / f"{compiled.__module__}.{compiled.__name__}.lock")

    def compile_in_turn(signature: Any) -> Any:
        with lock:
            return compile_or_load(signature)

    return compile_in_turn


def _array(tensor: Tensor) -> Any:
    bits = tensor.detach()
    return (bits.view(torch.uint16) if bits.dtype == torch.bfloat16 else bits).numpy()


@intrinsic
def float_of(context, bits):
    """The float32 of 32 bits."""
    return types.float32(types.uint32), lambda _, builder, __, values: builder.bitcast(values[0], ir.FloatType())


@intrinsic
def bits_of(context, value):
    """The 32 bits of a float32."""
    return types.uint32(types.float32), lambda _, builder, __, values: builder.bitcast(values[0], ir.IntType(32))


@intrinsic
def _prefetch(context, values, index):
    def call(context, builder, signature, arguments):
        first = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        kinds = [first.type, *[ir.IntType(32)] * 3]
        prefetch = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.VoidType(), kinds), "llvm.prefetch.p0"
        )
        to_read, into_all_caches, as_data = (ir.Constant(ir.IntType(32), number) for number in (0, 3, 1))
        builder.call(prefetch, [builder.gep(first, [arguments[1]]), to_read, into_all_caches, as_data])
        return context.get_dummy_value()

    return types.void(values, types.intp), call


@row_loop
def fetch(row):
    """Have a row brought from memory at once, before a loop computes on it that would wait for each part."""
    for j in range(0, row.size, 64 // row.itemsize):
        _prefetch(row, j)


def load(values, index):
    """An element in float32."""


@overload(load, inline="always")
def _load(values, index):
    if values.dtype == types.uint16:
        return lambda values, index: float_of(U(U(values[index]) << U(16)))
    return lambda values, index: values[index]


def rounded(value, values):
    """A float32 value as the elements of an array are, to the nearest."""


@overload(rounded, inline="always")
def _rounded(value, values):
    def to_bfloat16(value, values):
        bits = bits_of(F(value))
        return np.uint16(U(bits + U(U(0x7FFF) + U(U(bits >> U(16)) & U(1)))) >> U(16))

    return to_bfloat16 if values.dtype == types.uint16 else lambda value, values: value
