"""AMX instructions for kernels: eight tiles of 16 rows of 64 bytes, each named by its number."""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from bertcli.kernels.loops.compiled import row_loop

ROWS = 16  # of a tile
BYTE, LONG = ir.IntType(8), ir.IntType(64)
BYTES = BYTE.as_pointer()


def _instruction(name: str, *kinds: ir.Type) -> Any:
    def emit(builder: Any, *values: Any) -> None:
        function = ir.FunctionType(ir.VoidType(), kinds)
        builder.call(cgutils.get_or_insert_function(builder.module, function, f"llvm.x86.{name}"), values)

    return emit


def _place(context: Any, builder: Any, kind: Any, values: Any, index: Any) -> Any:
    """Where an element of an array lies."""
    first = context.make_array(kind)(context, builder, values).data
    return builder.bitcast(builder.gep(first, [index]), BYTES)


def _of_tiles(name: str, count: int) -> Any:
    """An instruction of so many tiles and nothing else."""

    def call(context, builder, signature, arguments):
        tiles = [ir.Constant(BYTE, tile.literal_value) for tile in signature.args]
        _instruction(name, *[BYTE] * count)(builder, *tiles)
        return context.get_dummy_value()

    return call


@intrinsic(prefer_literal=True)
def zero(context, tile):
    """Make a tile zeros."""
    return types.void(tile), _of_tiles("tilezero", 1)


@intrinsic(prefer_literal=True)
def add_product(context, total, left, right):
    """Add to a tile of float32 the product of two of bfloat16; of the right one, a row has pairs of rows of the matrix."""
    return types.void(total, left, right), _of_tiles("tdpbf16ps", 3)


def _moved(name: str) -> Any:
    def move(context, tile, values, first, stride):
        def call(context, builder, signature, arguments):
            number = ir.Constant(BYTE, signature.args[0].literal_value)
            place = _place(context, builder, signature.args[1], *arguments[1:3])
            _instruction(name, BYTE, BYTES, LONG)(builder, number, place, arguments[3])
            return context.get_dummy_value()

        return types.void(tile, values, types.intp, types.intp), call

    return move


# To and from a tile: `read(tile, values, first, stride)`, the index of the first element and the bytes between rows.
read = intrinsic(prefer_literal=True)(_moved("tileloadd64"))
write = intrinsic(prefer_literal=True)(_moved("tilestored64"))


@intrinsic
def _configure(context, configuration):
    def call(context, builder, signature, arguments):
        place = _place(context, builder, signature.args[0], arguments[0], ir.Constant(LONG, 0))
        _instruction("ldtilecfg", BYTES)(builder, place)
        return context.get_dummy_value()

    return types.void(configuration), call


@intrinsic
def release(context):
    """Give them back."""
    return types.void(), _of_tiles("tilerelease", 0)


@row_loop
def take():
    """Have the tiles in the thread that asks, before any other instruction; `release` gives them back."""
    configuration = np.zeros(64, np.uint8)
    configuration[0] = 1
    for tile in range(8):
        configuration[16 + 2 * tile] = 64
        configuration[48 + tile] = ROWS
    _configure(configuration)
