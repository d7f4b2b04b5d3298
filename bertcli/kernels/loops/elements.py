"""An element of the arrays of compiled loops: float32, or bfloat16 as uint16."""

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from bertcli.kernels.loops.compiled import row_loop

F, S, U = np.float32, np.int32, np.uint32


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
        kind = ir.FunctionType(ir.VoidType(), [first.type, *[ir.IntType(32)] * 3])
        prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        to_read, into_all_caches, as_data = (ir.Constant(ir.IntType(32), number) for number in (0, 3, 1))
        builder.call(prefetch, [builder.gep(first, [arguments[1]]), to_read, into_all_caches, as_data])
        return context.get_dummy_value()

    return types.void(values, types.intp), call


@row_loop
def fetch(row):
    """Prefetch a row, before a loop that would wait for each part of it."""
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
