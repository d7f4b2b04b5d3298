"""Elements of the arrays of compiled loops, float32 or bfloat16 as uint16: one, or as many as a vector has lanes."""

import operator
from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba import carray, types
from numba.core import cgutils
from numba.core.datamodel import models, register_default
from numba.extending import intrinsic, lower_builtin, overload, type_callable

from bertcli.kernels.loops.compiled import row_loop

F, S, U = np.float32, np.int32, np.uint32
LANES = 16 if binding.get_host_cpu_features().get("avx512f") else 8
FLOAT, WORD, HALF, INDEX = ir.FloatType(), ir.IntType(32), ir.IntType(16), ir.IntType(64)
FLOATS, WORDS, HALVES = (ir.VectorType(kind, LANES) for kind in (FLOAT, WORD, HALF))


@intrinsic
def float_of(context, bits):
    """The float32 of 32 bits."""
    return types.float32(types.uint32), lambda _, builder, __, values: builder.bitcast(values[0], FLOAT)


@intrinsic
def bits_of(context, value):
    """The 32 bits of a float32."""
    return types.uint32(types.float32), lambda _, builder, __, values: builder.bitcast(values[0], WORD)


@intrinsic
def _pointer(context, address, like):
    def call(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(like.dtype)(types.int64, like), call


@row_loop
def array_at(address, first, last, like):
    """The elements from `first` up to `last` of the array at an address, of the precision of `like`; the caller keeps its memory."""
    return carray(_pointer(address + first * like.itemsize, like), last - first)


@intrinsic
def _prefetch(context, values, index):
    def call(context, builder, signature, arguments):
        first = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        kind = ir.FunctionType(ir.VoidType(), [first.type, *[WORD] * 3])
        prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        to_read, into_all_caches, as_data = (ir.Constant(WORD, number) for number in (0, 3, 1))
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


class Lanes(types.Type):  # type: ignore[misc]
    """The type of a vector of float32 with so many lanes."""

    def __init__(self) -> None:
        super().__init__(name=f"{LANES} lanes")


lanes = Lanes()


@register_default(Lanes)
class _LanesModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, FLOATS)


def _each(kind: ir.Type, number: float) -> ir.Constant:
    return ir.Constant(kind, [number] * LANES)


def _place(context: Any, builder: Any, kind: Any, values: Any, index: Any) -> Any:
    """Where the elements of an array, float32 or bfloat16, lie from an index on."""
    first = context.make_array(kind)(context, builder, values).data
    vector = HALVES if kind.dtype == types.uint16 else FLOATS
    return builder.bitcast(builder.gep(first, [index]), vector.as_pointer())


def _read(builder: Any, place: Any) -> Any:
    is_half = place.type.pointee == HALVES
    found = builder.load(place, align=2 if is_half else 4)
    return builder.bitcast(builder.shl(builder.zext(found, WORDS), _each(WORDS, 16)), FLOATS) if is_half else found


def _write(builder: Any, place: Any, found: Any) -> None:
    is_half = place.type.pointee == HALVES
    if is_half:  # rounded to the nearest, as `rounded` does
        bits = builder.bitcast(found, WORDS)
        odd = builder.and_(builder.lshr(bits, _each(WORDS, 16)), _each(WORDS, 1))
        bits = builder.add(bits, builder.add(odd, _each(WORDS, 0x7FFF)))
        found = builder.trunc(builder.lshr(bits, _each(WORDS, 16)), HALVES)
    builder.store(found, place, align=2 if is_half else 4)


def _larger(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


def _shuffled(builder: Any, a: Any, b: Any, order: list[int]) -> Any:
    return builder.shuffle_vector(a, b, ir.Constant(WORDS, order))


def _spread(builder: Any, value: Any) -> Any:
    one = builder.insert_element(ir.Constant(FLOATS, ir.Undefined), value, ir.Constant(WORD, 0))
    return _shuffled(builder, one, one, [0] * LANES)


@intrinsic
def every(context, value):
    """A number in each lane."""
    return lanes(types.float32), lambda _, builder, __, arguments: _spread(builder, *arguments)


@intrinsic
def element(context, values, index):
    """An element of an array of float32 in each lane; without what numba does to negative indices."""

    def call(context, builder, signature, arguments):
        first = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        return _spread(builder, builder.load(builder.gep(first, [arguments[1]])))

    return lanes(values, types.intp), call


@intrinsic
def read(context, values, index):
    """The elements of an array from an index on, in float32."""

    def call(context, builder, signature, arguments):
        return _read(builder, _place(context, builder, signature.args[0], *arguments))

    return lanes(values, types.intp), call


@intrinsic
def write(context, values, index, found):
    """Write to an array from an index on."""

    def call(context, builder, signature, arguments):
        _write(builder, _place(context, builder, signature.args[0], *arguments[:2]), arguments[2])
        return context.get_dummy_value()

    return types.void(values, types.intp, found), call


def _function(name: str, count: int) -> Any:
    def call(context, builder, signature, arguments):
        kind = ir.FunctionType(FLOATS, [FLOATS] * count)
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.v{LANES}f32"), arguments)

    return call


@intrinsic
def add_product(context, total, a, b):
    """The total and a times b, rounded once."""

    def call(context, builder, signature, arguments):
        return _function("fma", 3)(context, builder, signature, [*arguments[1:], arguments[0]])

    return lanes(total, a, b), call


@intrinsic
def floor(context, a):
    """The next whole numbers below."""
    return lanes(a), _function("floor", 1)


@intrinsic
def larger(context, a, b):
    """The larger of two in each lane."""
    return lanes(a, b), lambda _, builder, __, arguments: _larger(builder, *arguments)


@intrinsic
def scaled(context, a, power, exponent):
    """`a` times 2 to the power, a whole number; 0 where the exponent is below -80, and NaN where it is NaN."""

    def call(context, builder, signature, arguments):
        a, power, exponent = arguments
        biased = builder.add(builder.fptosi(power, WORDS), _each(WORDS, 127))
        found = builder.fmul(a, builder.bitcast(builder.shl(biased, _each(WORDS, 23)), FLOATS))
        return builder.select(builder.fcmp_ordered("<", exponent, _each(FLOATS, float(-80))), _each(FLOATS, 0.0), found)

    return lanes(a, power, exponent), call


def _define(symbol: Any, instruction: str) -> None:
    @type_callable(symbol)
    def typed(context):
        return lambda a, b: lanes if isinstance(a, Lanes) and isinstance(b, Lanes) else None

    @lower_builtin(symbol, Lanes, Lanes)
    def lowered(context, builder, signature, arguments):
        return getattr(builder, instruction)(*arguments)


for symbol, instruction in ((operator.add, "fadd"), (operator.sub, "fsub"), (operator.mul, "fmul")):
    _define(symbol, instruction)


def _reduced(combine: Any) -> Any:
    """The element that pairs of lanes, then pairs of these, and so on, combine to."""

    def call(context, builder, signature, arguments):
        found, step = arguments[0], LANES // 2
        while step:
            turned = [(lane + step) % LANES for lane in range(LANES)]
            found, step = combine(builder, found, _shuffled(builder, found, found, turned)), step // 2
        return builder.extract_element(found, ir.Constant(WORD, 0))

    return call


@intrinsic
def total(context, a):
    """The sum of all lanes."""
    return types.float32(a), _reduced(lambda builder, a, b: builder.fadd(a, b))


@intrinsic
def highest(context, a):
    """The highest of all lanes."""
    return types.float32(a), _reduced(_larger)


@intrinsic
def turn(context, values, first, step, count, columns, place, width):
    """Write a square block of an array to `columns` with its rows as columns, zeros after the first `count` rows.

    Rows lie `step` and `width` elements apart, the first at the indices `first` and `place`.
    """

    def call(context, builder, signature, arguments):
        values, first, step, count, columns, place, width = arguments
        rows = []
        for row in range(LANES):
            number = ir.Constant(INDEX, row)
            is_there = builder.icmp_signed("<", number, count)
            index = builder.add(first, builder.mul(step, builder.select(is_there, number, ir.Constant(INDEX, 0))))
            found = _read(builder, _place(context, builder, signature.args[0], values, index))
            rows.append(builder.select(is_there, found, _each(FLOATS, 0.0)))
        half = LANES // 2
        orders = [[start + lane // 2 + LANES * (lane % 2) for lane in range(LANES)] for start in (0, half)]
        for _ in range(LANES.bit_length() - 1):  # each time, a row is merged with the one that lies half of them apart
            pairs = list(zip(rows[:half], rows[half:], strict=True))
            rows = [_shuffled(builder, *pair, order) for pair in pairs for order in orders]
        for row, found in enumerate(rows):
            index = builder.add(place, builder.mul(width, ir.Constant(INDEX, row)))
            _write(builder, _place(context, builder, signature.args[4], columns, index), found)
        return context.get_dummy_value()

    sizes = [types.intp] * 3
    return types.void(values, *sizes, columns, types.intp, types.intp), call
