"""Flash attention compiled by Triton for a GPU, with dropout by rows and columns (Dao et al. 2022)."""

import triton
import triton.language as tl

from bertcli.kernels.loops.gpu import BLOCK, CHANGING, HALF, drawn, hashes, mixed, names_of

HEAD = tl.constexpr(0x9E3779B9)  # sets the rows of attention heads apart (models/dropout.py)


@triton.jit
def _tile(base, tokens, is_token, stride, SIZE: tl.constexpr):
    """Rows of a head, [tokens, SIZE]; zeros where there is no token."""
    return tl.load(base + tokens[:, None] * stride + tl.arange(0, SIZE)[None, :], mask=is_token[:, None], other=0.0)


@triton.jit
def _put(base, tokens, is_token, stride, values, SIZE: tl.constexpr):
    at = base + tokens[:, None] * stride + tl.arange(0, SIZE)[None, :]
    tl.store(at, values.to(base.dtype.element_ty), mask=is_token[:, None])


@triton.jit
def _hidden(scores, queries, keys, length, IS_CAUSAL: tl.constexpr):
    """Scores, with -inf for what a query does not see."""
    is_seen = keys < length
    if IS_CAUSAL:
        is_seen = is_seen & (keys <= queries)
    return tl.where(is_seen, scores, -float("inf"))


@triton.jit
def _sequence(ends, blocks):
    """Where the program's sequence starts, its length, and which block of it is the program's."""
    sequence = tl.program_id(0) // blocks
    start = tl.load(ends + sequence).to(tl.int64)
    return start, (tl.load(ends + sequence + 1) - start).to(tl.int32), tl.program_id(0) % blocks


@triton.jit
def _of_head(names, tokens, is_token, low, high):
    return hashes(mixed(names_of(names, tokens, is_token) + tl.program_id(1).to(tl.uint32) * HEAD), low, high)


@triton.jit
def _keys_of(place):
    """The keys whose bits are the low halves of the hashes of places; those of the high halves are HALF further."""
    return place // HALF * BLOCK + place % HALF


@triton.jit
def _are_dropped(place, first, second, dropped):
    """Which weights are dropped, of the keys of the low halves of the hashes and of those of the high halves."""
    bits = drawn(place, first, second)
    return (bits & 0xFFFF).to(tl.int32) < dropped, (bits >> 16).to(tl.int32) < dropped


@triton.jit(do_not_specialize=CHANGING)
def attention(
    query,
    key,
    value,
    context,
    sums,
    names,
    ends,
    low,
    high,
    dropped,
    scale,
    scaling,
    blocks,
    tokens,
    stride,
    SIZE: tl.constexpr,
    ROWS: tl.constexpr,
    PAIRS: tl.constexpr,
    IS_CAUSAL: tl.constexpr,
):
    """The context of a block of queries in a head, and their log sums; keys come in pairs that share a hash.

    States have `stride` elements between tokens; `scaling` and sums are to the base of 2.
    """
    start, length, block = _sequence(ends, blocks)
    if block * ROWS >= length:
        return
    head, width = tl.program_id(1), tl.num_programs(1) * SIZE
    rows = block * ROWS + tl.arange(0, ROWS)
    is_row = rows < length
    first, second = _of_head(names, start + rows, is_row, low, high)
    q = _tile(query + head * SIZE, start + rows, is_row, stride, SIZE)
    most = tl.full([ROWS], -float("inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    found = tl.zeros([ROWS, SIZE], tl.float32)
    for begin in range(0, tl.minimum(length, (block + 1) * ROWS) if IS_CAUSAL else length, 2 * PAIRS):
        place = begin // 2 + tl.arange(0, PAIRS)
        one, other = _keys_of(place), _keys_of(place) + HALF
        is_one, is_other = _are_dropped(place[None, :], first[:, None], second[:, None], dropped)
        k1 = _tile(key + head * SIZE, start + one, one < length, stride, SIZE)
        k2 = _tile(key + head * SIZE, start + other, other < length, stride, SIZE)
        s1 = _hidden(tl.dot(q, tl.trans(k1)) * scaling, rows[:, None], one[None, :], length, IS_CAUSAL)
        s2 = _hidden(tl.dot(q, tl.trans(k2)) * scaling, rows[:, None], other[None, :], length, IS_CAUSAL)
        new = tl.maximum(most, tl.maximum(tl.max(s1, 1), tl.max(s2, 1)))
        p1, p2, shrink = tl.exp2(s1 - new[:, None]), tl.exp2(s2 - new[:, None]), tl.exp2(most - new)
        total = total * shrink + tl.sum(p1, 1) + tl.sum(p2, 1)
        p1, p2 = tl.where(is_one, 0.0, p1).to(q.dtype), tl.where(is_other, 0.0, p2).to(q.dtype)
        v1 = _tile(value + head * SIZE, start + one, one < length, stride, SIZE)
        v2 = _tile(value + head * SIZE, start + other, other < length, stride, SIZE)
        found = tl.dot(p2, v2, tl.dot(p1, v1, found * shrink[:, None]))
        most = new
    _put(context + head * SIZE, start + rows, is_row, width, found * (scale / total)[:, None], SIZE)
    tl.store(sums + head * tokens + start + rows, most + tl.log2(total), mask=is_row)


@triton.jit
def _gradients(logarithms, left, right, deltas, is_dropped, scale):
    """The weights that are left of those with these logarithms, and the gradient of their scores; theirs is left times right."""
    weights = tl.exp2(logarithms)
    of_weights = tl.where(is_dropped, 0.0, tl.dot(left, tl.trans(right)) * scale)
    return tl.where(is_dropped, 0.0, weights), weights * (of_weights - deltas)


@triton.jit(do_not_specialize=CHANGING)
def attention_to_queries(
    query,
    key,
    value,
    context,
    sums,
    names,
    ends,
    low,
    high,
    dropped,
    scale,
    scaling,
    blocks,
    tokens,
    stride,
    given,
    deltas,
    gradient,
    factor,
    SIZE: tl.constexpr,
    ROWS: tl.constexpr,
    PAIRS: tl.constexpr,
    IS_CAUSAL: tl.constexpr,
):
    """The gradient of a block of queries in a head, and the sums of its context times that of the context."""
    start, length, block = _sequence(ends, blocks)
    if block * ROWS >= length:
        return
    head, width = tl.program_id(1), tl.num_programs(1) * SIZE
    rows = block * ROWS + tl.arange(0, ROWS)
    is_row = rows < length
    first, second = _of_head(names, start + rows, is_row, low, high)
    q = _tile(query + head * SIZE, start + rows, is_row, stride, SIZE)
    g = _tile(given + head * SIZE, start + rows, is_row, width, SIZE)
    c = _tile(context + head * SIZE, start + rows, is_row, width, SIZE)
    delta = tl.sum(g.to(tl.float32) * c.to(tl.float32), 1)
    tl.store(deltas + head * tokens + start + rows, delta, mask=is_row)
    total = tl.load(sums + head * tokens + start + rows, mask=is_row, other=0.0)[:, None]
    found = tl.zeros([ROWS, SIZE], tl.float32)
    for begin in range(0, tl.minimum(length, (block + 1) * ROWS) if IS_CAUSAL else length, 2 * PAIRS):
        place = begin // 2 + tl.arange(0, PAIRS)
        is_one, is_other = _are_dropped(place[None, :], first[:, None], second[:, None], dropped)
        for side in tl.static_range(2):
            keys = _keys_of(place) + side * HALF
            is_dropped = is_other if side else is_one
            k = _tile(key + head * SIZE, start + keys, keys < length, stride, SIZE)
            v = _tile(value + head * SIZE, start + keys, keys < length, stride, SIZE)
            s = _hidden(tl.dot(q, tl.trans(k)) * scaling, rows[:, None], keys[None, :], length, IS_CAUSAL)
            _, of_scores = _gradients(s - total, g, v, delta[:, None], is_dropped, scale)
            found = tl.dot(of_scores.to(q.dtype), k, found)
    _put(gradient + head * SIZE, start + rows, is_row, stride, found * factor, SIZE)


@triton.jit(do_not_specialize=CHANGING)
def attention_to_keys(
    query,
    key,
    value,
    context,
    sums,
    names,
    ends,
    low,
    high,
    dropped,
    scale,
    scaling,
    blocks,
    tokens,
    stride,
    given,
    deltas,
    to_key,
    to_value,
    factor,
    SIZE: tl.constexpr,
    ROWS: tl.constexpr,
    PAIRS: tl.constexpr,
    IS_CAUSAL: tl.constexpr,
):
    """The gradients of a block of keys and values in a head."""
    start, length, block = _sequence(ends, blocks)
    if block * 2 * PAIRS >= length:
        return
    head, width = tl.program_id(1), tl.num_programs(1) * SIZE
    place = block * PAIRS + tl.arange(0, PAIRS)
    one, other = _keys_of(place), _keys_of(place) + HALF
    k1 = _tile(key + head * SIZE, start + one, one < length, stride, SIZE)
    k2 = _tile(key + head * SIZE, start + other, other < length, stride, SIZE)
    v1 = _tile(value + head * SIZE, start + one, one < length, stride, SIZE)
    v2 = _tile(value + head * SIZE, start + other, other < length, stride, SIZE)
    dk1, dk2 = tl.zeros([PAIRS, SIZE], tl.float32), tl.zeros([PAIRS, SIZE], tl.float32)
    dv1, dv2 = tl.zeros([PAIRS, SIZE], tl.float32), tl.zeros([PAIRS, SIZE], tl.float32)
    for begin in range(block * 2 * PAIRS // ROWS * ROWS if IS_CAUSAL else 0, length, ROWS):
        rows = begin + tl.arange(0, ROWS)
        is_row = rows < length
        first, second = _of_head(names, start + rows, is_row, low, high)
        q = _tile(query + head * SIZE, start + rows, is_row, stride, SIZE)
        g = _tile(given + head * SIZE, start + rows, is_row, width, SIZE)
        total = tl.load(sums + head * tokens + start + rows, mask=is_row, other=0.0)[None, :]
        delta = tl.load(deltas + head * tokens + start + rows, mask=is_row, other=0.0)[None, :]
        is_one, is_other = _are_dropped(place[:, None], first[None, :], second[None, :], dropped)
        s1 = _hidden(tl.dot(k1, tl.trans(q)) * scaling, rows[None, :], one[:, None], length, IS_CAUSAL)
        s2 = _hidden(tl.dot(k2, tl.trans(q)) * scaling, rows[None, :], other[:, None], length, IS_CAUSAL)
        p1, s1 = _gradients(s1 - total, v1, g, delta, is_one, scale)
        p2, s2 = _gradients(s2 - total, v2, g, delta, is_other, scale)
        dv1, dk1 = tl.dot(p1.to(q.dtype), g, dv1), tl.dot(s1.to(q.dtype), q, dk1)
        dv2, dk2 = tl.dot(p2.to(q.dtype), g, dv2), tl.dot(s2.to(q.dtype), q, dk2)
    _put(to_key + head * SIZE, start + one, one < length, stride, dk1 * factor, SIZE)
    _put(to_key + head * SIZE, start + other, other < length, stride, dk2 * factor, SIZE)
    _put(to_value + head * SIZE, start + one, one < length, stride, dv1 * scale, SIZE)
    _put(to_value + head * SIZE, start + other, other < length, stride, dv2 * scale, SIZE)
