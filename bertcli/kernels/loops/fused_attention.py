"""Attention whose scores stay in the cache: products, softmax and dropout of a head of a sequence at once, in float32."""

import numpy as np
from numba import prange

from bertcli.kernels.loops.compiled import kernel, row_loop, scalar
from bertcli.kernels.loops.elements import (
    LANES,
    F,
    add_product,
    element,
    every,
    floor,
    highest,
    larger,
    load,
    read,
    rounded,
    scaled,
    total,
    turn,
    write,
)
from bertcli.kernels.loops.rows import draw, new_factors, new_row, of_head

# T tokens, P arrays in one, A heads, D size per head, N sequences, S tokens of a sequence. Arrays are flat: a slice for
# each row would take as long as the row. Scratch rows, of tokens or of sizes, are whole vectors. The right side of a product
# has a row for each element of its sums: keys stand as columns for the scores, values for their gradient.

BLOCK = 32  # queries at a time
FEW = 16  # sequences: each head is a task for threads; of more sequences two heads are, which share their scratch
ROWS = 4  # of a product that are summed at once


@scalar
def _up(number, step):
    return -(-number // step) * step


@row_loop
def _copy(x, first, y, place, count):
    """Write elements of one array to another."""
    whole = count - count % LANES
    for j in range(0, whole, LANES):
        write(y, place + j, read(x, first + j))
    for j in range(whole, count):
        y[place + j] = rounded(load(x, first + j), y)


@row_loop
def _fill(y, first, last, value):
    for j in range(first, last):
        y[j] = value


@row_loop
def _turn(x, first, step, length, size, columns, width):
    """Write rows of so many elements, `step` apart, as columns to [size, width], and zeros after the last."""
    whole = size - size % LANES
    for i in range(0, width, LANES):
        for d in range(0, whole, LANES):
            turn(x, first + i * step + d, step, length - i, columns, d * width + i, width)
        for d in range(whole, size):
            for j in range(i, i + LANES):
                columns[d * width + j] = load(x, first + j * step + d) if j < length else F(0)


@row_loop
def _powers(row, first, last, scaling):
    """Make e to the (s - highest) * scaling of each score; return the inverse of their sum."""
    most = read(row, first)
    for j in range(first + LANES, last, LANES):
        most = larger(most, read(row, j))
    top, scales, sums = every(highest(most)), every(scaling), every(F(0))
    for j in range(first, last, LANES):
        power = _exp((read(row, j) - top) * scales)
        write(row, j, power)
        sums = sums + power
    return F(1) / total(sums)


@row_loop
def _drop(row, first, size, inverse, kept, weights, place):
    """Make weights of the exponentials, which are written to `weights` before dropout, if it has room."""
    scales, stores = every(inverse), place < len(weights)
    for j in range(0, size, LANES):
        weight = read(row, first + j) * scales
        if stores:
            write(weights, place + j, weight)
        write(row, first + j, weight * read(kept, j))


@row_loop
def _back_through_softmax(gradient, first, size, weights, place, kept, scaling, dropped):
    """Make the gradient of the scores of that of the weights; write what dropout left of these to `dropped`."""
    sums = every(F(0))
    for j in range(0, size, LANES):
        sums = sums + read(gradient, first + j) * read(kept, j) * read(weights, place + j)
    along, scales = every(total(sums)), every(scaling)
    for j in range(0, size, LANES):
        weight, factors = read(weights, place + j), read(kept, j)
        write(gradient, first + j, (read(gradient, first + j) * factors - along) * weight * scales)
        write(dropped, first + j, weight * factors)


@row_loop
def _starts(lengths, heads):
    """The index of each sequence's first token, and of its first weight, of [A, S, S rounded up to LANES]."""
    starts = np.zeros((len(lengths), 2), np.int64)
    for n in range(len(lengths) - 1):
        starts[n + 1, 0] = starts[n, 0] + lengths[n]
        starts[n + 1, 1] = starts[n, 1] + heads * lengths[n] * _up(lengths[n], LANES)
    return starts


@row_loop
def _exp(x):
    """Return e to the x <= 0, to 5e-7 of it, as in rows.py, but 0 below -80."""
    power_of_two = x * every(F(1.44269504))
    whole = floor(power_of_two + every(F(0.5)))
    f = power_of_two - whole
    power = add_product(every(F(0.00967546)), every(F(0.0013266971)), f)
    power = add_product(every(F(0.055507425)), power, f)
    power = add_product(every(F(0.24022122)), power, f)
    power = add_product(every(F(0.69314694)), power, f)
    power = add_product(every(F(1.0000001)), power, f)
    return scaled(power, whole, x)


@row_loop
def _multiply(a, row, inner, b, product, rows, depth, columns, adds):
    """Write, or add, the product of a, [rows, depth], and b, [depth, columns], to `product`, [rows, columns].

    An element of `a` lies `row` elements from that of the next row, and `inner` from the next of its own. `columns` is a
    multiple of LANES; `a` and `product` have room for rows up to a multiple of ROWS.
    """
    for column in range(0, columns, 2 * LANES):
        for r in range(0, rows, ROWS):
            if column + LANES < columns:
                _two_wide(a, r * row, row, inner, b, column, depth, columns, product, r * columns + column, adds)
            else:
                _one_wide(a, r * row, row, inner, b, column, depth, columns, product, r * columns + column, adds)


@row_loop
def _two_wide(a, first, row, inner, b, column, depth, columns, product, place, adds):
    s0 = t0 = s1 = t1 = s2 = t2 = s3 = t3 = every(F(0))
    second, third, fourth = place + columns, place + 2 * columns, place + 3 * columns
    if adds:
        s0, t0 = read(product, place), read(product, place + LANES)
        s1, t1 = read(product, second), read(product, second + LANES)
        s2, t2 = read(product, third), read(product, third + LANES)
        s3, t3 = read(product, fourth), read(product, fourth + LANES)
    for k in range(depth):
        left, right = read(b, k * columns + column), read(b, k * columns + column + LANES)
        at = first + k * inner
        a0, a1, a2, a3 = element(a, at), element(a, at + row), element(a, at + 2 * row), element(a, at + 3 * row)
        s0, t0 = add_product(s0, a0, left), add_product(t0, a0, right)
        s1, t1 = add_product(s1, a1, left), add_product(t1, a1, right)
        s2, t2 = add_product(s2, a2, left), add_product(t2, a2, right)
        s3, t3 = add_product(s3, a3, left), add_product(t3, a3, right)
    write(product, place, s0)
    write(product, place + LANES, t0)
    write(product, second, s1)
    write(product, second + LANES, t1)
    write(product, third, s2)
    write(product, third + LANES, t2)
    write(product, fourth, s3)
    write(product, fourth + LANES, t3)


@row_loop
def _one_wide(a, first, row, inner, b, column, depth, columns, product, place, adds):
    s0 = s1 = s2 = s3 = every(F(0))
    second, third, fourth = place + columns, place + 2 * columns, place + 3 * columns
    if adds:
        s0, s1, s2, s3 = read(product, place), read(product, second), read(product, third), read(product, fourth)
    for k in range(depth):
        right, at = read(b, k * columns + column), first + k * inner
        s0, s1 = add_product(s0, element(a, at), right), add_product(s1, element(a, at + row), right)
        s2, s3 = add_product(s2, element(a, at + 2 * row), right), add_product(s3, element(a, at + 3 * row), right)
    write(product, place, s0)
    write(product, second, s1)
    write(product, third, s2)
    write(product, fourth, s3)


@kernel
def forward(q, k, v, places, lengths, scaling, mask, is_causal, weights, context):
    """Write attention within sequences of so many tokens, [N], to `context`, [T, A, D].

    `q`, `k` and `v` are [T, P, A, D], and `places` which of P is query, key and value. For the backward pass the weights
    before dropout are written to `weights`, if that has elements.
    """
    heads, size = q.shape[2:]
    width, step, wide = heads * size, q.shape[1] * heads * size, _up(size, LANES)
    queries, keys, values, contexts = q.reshape(-1), k.reshape(-1), v.reshape(-1), context.reshape(-1)
    starts, count = _starts(lengths, heads), len(lengths)
    parts = heads if count < FEW else -(-heads // 2)
    for task in prange(parts * count):
        part, n = task // count, task % count
        start, stored_at, length = starts[n, 0], starts[n, 1], lengths[n]
        padded = _up(length, LANES)
        query, key, value = new_row(BLOCK * wide), new_row(size * padded), new_row(length * wide)
        scores, means, kept = new_row(BLOCK * padded), new_row(BLOCK * wide), new_factors(padded)
        for a in range(part * heads // parts, (part + 1) * heads // parts):
            at = start * step + a * size
            at_query, at_key, at_value = at + places[0] * width, at + places[1] * width, at + places[2] * width
            _turn(keys, at_key, step, length, size, key, padded)
            for i in range(length):
                _copy(values, at_value + i * step, value, i * wide, size)
            for first in range(0, length, BLOCK):
                rows = min(BLOCK, length - first)
                for i in range(rows):
                    _copy(queries, at_query + (first + i) * step, query, i * wide, size)
                _fill(query, rows * wide, _up(rows, ROWS) * wide, F(0))
                _multiply(query, wide, 1, key, scores, rows, size, padded, False)
                for i in range(rows):
                    row, seen = i * padded, first + i + 1 if is_causal else length
                    _fill(scores, row + seen, row + padded, F(-np.inf))
                    inverse = _powers(scores, row, row + padded, F(scaling))
                    if mask[1] > 0:
                        draw(kept, of_head(mask[3][start + first + i], a), mask)
                    _drop(scores, row, padded, inverse, kept, weights, stored_at + (a * length + first + i) * padded)
                _multiply(scores, padded, 1, value, means, rows, length, wide, False)
                for i in range(rows):
                    _copy(means, i * wide, contexts, (start + first + i) * width + a * size, size)


@kernel
def backward(gradient, q, k, v, places, lengths, scaling, mask, weights, of_q, of_k, of_v):
    """Write the gradients of query, key and value of that of the context, [T, A, D]; the rest is as in `forward`.

    The weights of what a token does not see are 0, so the order of tokens is not asked for.
    """
    heads, size = q.shape[2:]
    width, step, wide = heads * size, q.shape[1] * heads * size, _up(size, LANES)
    queries, keys, values, gradients = q.reshape(-1), k.reshape(-1), v.reshape(-1), gradient.reshape(-1)
    of_queries, of_keys, of_values = of_q.reshape(-1), of_k.reshape(-1), of_v.reshape(-1)
    starts, count = _starts(lengths, heads), len(lengths)
    parts = heads if count < FEW else -(-heads // 2)
    for task in prange(parts * count):
        part, n = task // count, task % count
        start, stored_at, length = starts[n, 0], starts[n, 1], lengths[n]
        padded = _up(length, LANES)
        query, given, found = new_row(BLOCK * wide), new_row(BLOCK * wide), new_row(BLOCK * wide)
        key, value, kept = new_row(length * wide), new_row(size * padded), new_factors(padded)
        of_scores, dropped = new_row(BLOCK * padded), new_row(BLOCK * padded)
        of_key, of_value = new_row(padded * wide), new_row(padded * wide)
        for a in range(part * heads // parts, (part + 1) * heads // parts):
            at = start * step + a * size
            at_query, at_key, at_value = at + places[0] * width, at + places[1] * width, at + places[2] * width
            _turn(values, at_value, step, length, size, value, padded)
            for i in range(length):
                _copy(keys, at_key + i * step, key, i * wide, size)
            for first in range(0, length, BLOCK):
                rows = min(BLOCK, length - first)
                for i in range(rows):
                    _copy(queries, at_query + (first + i) * step, query, i * wide, size)
                    _copy(gradients, (start + first + i) * width + a * size, given, i * wide, size)
                _fill(given, rows * wide, _up(rows, ROWS) * wide, F(0))
                _multiply(given, wide, 1, value, of_scores, rows, size, padded, False)
                for i in range(rows):
                    if mask[1] > 0:
                        draw(kept, of_head(mask[3][start + first + i], a), mask)
                    place = stored_at + (a * length + first + i) * padded
                    _back_through_softmax(of_scores, i * padded, padded, weights, place, kept, F(scaling), dropped)
                _multiply(of_scores, padded, 1, key, found, rows, length, wide, False)
                for i in range(rows):
                    _copy(found, i * wide, of_queries, at_query + (first + i) * step, size)
                _multiply(of_scores, 1, padded, query, of_key, length, rows, wide, first > 0)
                _multiply(dropped, 1, padded, given, of_value, length, rows, wide, first > 0)
            for i in range(length):
                _copy(of_key, i * wide, of_keys, at_key + i * step, size)
                _copy(of_value, i * wide, of_values, at_value + i * step, size)
