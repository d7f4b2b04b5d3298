"""The instructions of a CPU's matrix units (AMX): eight tiles, each of 16 rows of 64 bytes, named by their numbers."""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from bertcli.kernels.compiled import row_loop

BYTE, LONG = ir.IntType(8), ir.IntType(64)
BYTES = BYTE.as_pointer()


def _emit(builder: Any, name: str, *values: Any) -> None:
    kind = ir.FunctionType(ir.VoidType(), [value.type for value in values])
    builder.call(cgutils.get_or_insert_function(builder.module, kind, f"llvm.x86.{name}"), values)


def _place(context: Any, builder: Any, kind: Any, values: Any, index: Any) -> Any:
    """Where an element of an array lies."""
    first = context.make_array(kind)(context, builder, values).data
    return builder.bitcast(builder.gep(first, [index]), BYTES)


def _of_tiles(name: str) -> Any:
    def call(context, builder, signature, arguments):
        _emit(builder, name, *(ir.Constant(BYTE, tile.literal_value) for tile in signature.args))
        return context.get_dummy_value()

    return call


@intrinsic(prefer_literal=True)
def zero(context, tile):
    """Make a tile zeros."""
    return types.void(tile), _of_tiles("tilezero")


@intrinsic(prefer_literal=True)
def add_product(context, total, left, right):
    """Add to a tile of float32 the product of two of bfloat16; of the right one, a row has pairs of rows of the matrix."""
    return types.void(total, left, right), _of_tiles("tdpbf16ps")


def _moved(name: str) -> Any:
    def move(context, tile, values, first, stride):
        def call(context, builder, signature, arguments):
            number = ir.Constant(BYTE, signature.args[0].literal_value)
            _emit(builder, name, number, _place(context, builder, signature.args[1], *arguments[1:3]), arguments[3])
            return context.get_dummy_value()

        return types.void(tile, values, types.intp, types.intp), call

    return move


# To and from a tile: `read(tile, values, first, stride)`, the index of the first element and the bytes between rows.
read = intrinsic(prefer_literal=True)(_moved("tileloadd64"))
write = intrinsic(prefer_literal=True)(_moved("tilestored64"))


@intrinsic
def _configure(context, configuration):
    def call(context, builder, signature, arguments):
        _emit(builder, "ldtilecfg", _place(context, builder, signature.args[0], arguments[0], ir.Constant(LONG, 0)))
        return context.get_dummy_value()

    return types.void(configuration), call


@intrinsic
def release(context):
    """Give them back."""
    return types.void(), _of_tiles("tilerelease")


@row_loop
def take():
    """Have the tiles in the thread that asks, before any other instruction; `release` gives them back."""
    configuration = np.zeros(64, np.uint8)
    configuration[0], configuration[16:32:2], configuration[48:56] = 1, 64, 16  # bytes of a row; rows
    _configure(configuration)
