"""Loops compiled by Triton for a GPU: dropout, LayerNorm and cross entropy, each in one pass."""

import triton
import triton.language as tl

# Random bits are drawn as in data/packing/drawn_bits.py. A hash has those of two columns, which lie HALF apart.
BLOCK = tl.constexpr(32)
HALF = tl.constexpr(16)
CHANGING = ["low", "high", "dropped", "blocks", "tokens", "count"]  # numbers that get no kernel of their own


@triton.jit
def mixed(bits):
    """A one-to-one function of 32 bits."""
    bits = (bits ^ (bits >> 16)) * 0x7FEB352D
    bits = (bits ^ (bits >> 15)) * 0x846CA68B
    return bits ^ (bits >> 16)


@triton.jit
def hashes(row, low, high):
    """Two hashes of rows by their names and a key, given as its low and its high half."""
    first = mixed(row ^ low.to(tl.uint32, bitcast=True))
    return first, mixed(first + high.to(tl.uint32, bitcast=True))


@triton.jit
def drawn(place, first, second):
    """The hash of a place in a row with two hashes: 16 bits for one column in its low half, 16 for another in its high half."""
    return mixed(mixed(place.to(tl.uint32) ^ first) + second)


@triton.jit
def _is_dropped(first, second, columns, dropped):
    bits = drawn(columns // BLOCK * HALF + columns % HALF, first, second)
    return tl.where(columns % BLOCK < HALF, bits & 0xFFFF, bits >> 16).to(tl.int32) < dropped


@triton.jit
def names_of(names, rows, is_row):
    """The names of rows, as 32 bits."""
    return tl.load(names + rows, mask=is_row, other=0).to(tl.uint32, bitcast=True)


@triton.jit(do_not_specialize=CHANGING)
def drop(values, found, names, count, low, high, dropped, scale, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Dropout of rows, [R, C]."""
    rows, columns = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    first, second = hashes(names_of(names, rows, rows < count), low, high)
    at = rows.to(tl.int64)[:, None] * width + columns[None, :]
    is_there = (rows < count)[:, None] & (columns < width)[None, :]
    out = _is_dropped(first[:, None], second[:, None], columns[None, :], dropped)
    value = tl.load(values + at, mask=is_there, other=0.0).to(tl.float32)
    tl.store(found + at, tl.where(out, 0.0, value * scale).to(found.dtype.element_ty), mask=is_there)


@triton.jit(do_not_specialize=CHANGING)
def add_and_norm(
    added,
    residual,
    gain,
    shift,
    total,
    normed,
    moments,
    names,
    low,
    high,
    dropped,
    scale,
    epsilon,
    WIDTH,
    COLUMNS: tl.constexpr,
):
    """LayerNorm of a row with dropout plus the residual; keeps the sum, its mean and the inverse of its deviation."""
    row, columns = tl.program_id(0).to(tl.int64), tl.arange(0, COLUMNS)
    is_in, at = columns < WIDTH, row * WIDTH + columns
    value = tl.load(added + at, mask=is_in, other=0.0).to(tl.float32)
    if dropped > 0:
        first, second = hashes(names_of(names, row, True), low, high)
        value = tl.where(_is_dropped(first, second, columns, dropped), 0.0, value * scale)
    value += tl.load(residual + at, mask=is_in, other=0.0).to(tl.float32)
    mean = tl.sum(value, 0) / WIDTH
    apart = tl.where(is_in, value - mean, 0.0)
    inverse = 1.0 / tl.sqrt(tl.sum(apart * apart, 0) / WIDTH + epsilon)
    tl.store(moments + 2 * row, mean)
    tl.store(moments + 2 * row + 1, inverse)
    scaled = apart * inverse * tl.load(gain + columns, mask=is_in, other=0.0).to(tl.float32)
    scaled += tl.load(shift + columns, mask=is_in, other=0.0).to(tl.float32)
    tl.store(total + at, value.to(total.dtype.element_ty), mask=is_in)
    tl.store(normed + at, scaled.to(normed.dtype.element_ty), mask=is_in)


@triton.jit(do_not_specialize=CHANGING)
def add_and_norm_backward(
    gradient,
    total,
    moments,
    gain,
    of_added,
    of_residual,
    sums,
    names,
    low,
    high,
    dropped,
    scale,
    count,
    WIDTH,
    COLUMNS: tl.constexpr,
):
    """The gradients of what was added and of the residual; those of gain and shift, summed over each program's rows."""
    columns = tl.arange(0, COLUMNS)
    is_in = columns < WIDTH
    weight = tl.load(gain + columns, mask=is_in, other=0.0).to(tl.float32)
    of_gain = tl.zeros([COLUMNS], tl.float32)
    of_shift = tl.zeros([COLUMNS], tl.float32)
    row = tl.program_id(0).to(tl.int64)
    while row < count:
        at = row * WIDTH + columns
        given = tl.load(gradient + at, mask=is_in, other=0.0).to(tl.float32)
        mean, inverse = tl.load(moments + 2 * row), tl.load(moments + 2 * row + 1)
        unit = (tl.load(total + at, mask=is_in, other=0.0).to(tl.float32) - mean) * inverse
        of_gain += given * unit
        of_shift += given
        weighted = given * weight
        along, evenly = tl.sum(weighted * unit, 0) / WIDTH, tl.sum(weighted, 0) / WIDTH
        found = (weighted - unit * along - evenly) * inverse
        tl.store(of_residual + at, found.to(of_residual.dtype.element_ty), mask=is_in)
        if dropped > 0:
            first, second = hashes(names_of(names, row, True), low, high)
            found = tl.where(_is_dropped(first, second, columns, dropped), 0.0, found * scale)
            tl.store(of_added + at, found.to(of_added.dtype.element_ty), mask=is_in)
        row += tl.num_programs(0)
    place = sums + tl.program_id(0) * 2 * WIDTH + columns
    tl.store(place, of_gain, mask=is_in)
    tl.store(place + WIDTH, of_shift, mask=is_in)


@triton.jit
def log_sums(logits, sums, width, stride, COLUMNS: tl.constexpr):
    """The logarithm of the sum of the exponentials of a row; rows begin `stride` elements apart."""
    row, columns = tl.program_id(0), tl.arange(0, COLUMNS)
    most, total = -float("inf"), 0.0
    for begin in range(0, width, COLUMNS):
        at = begin + columns
        value = tl.load(logits + row.to(tl.int64) * stride + at, mask=at < width, other=-float("inf")).to(tl.float32)
        new = tl.maximum(most, tl.max(value, 0))
        total = total * tl.exp(most - new) + tl.sum(tl.exp(value - new), 0)
        most = new
    tl.store(sums + row, most + tl.log(total))


@triton.jit
def cross_entropy_gradient(logits, labels, sums, factor, found, width, stride, COLUMNS: tl.constexpr):
    """The gradient of a part of a row of logits, of which rows begin `stride` elements apart."""
    row, columns = tl.program_id(0), tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    row, is_in = row.to(tl.int64), columns < width
    given = tl.load(logits + row * stride + columns, mask=is_in, other=0.0).to(tl.float32)
    share = tl.exp(given - tl.load(sums + row))
    share = tl.where(columns == tl.load(labels + row), share - 1.0, share) * tl.load(factor)
    tl.store(found + row * width + columns, share.to(found.dtype.element_ty), mask=is_in)
