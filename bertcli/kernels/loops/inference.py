"""Loops of a pass without a gradient: nothing is kept, so they write where they read."""

import numpy as np
from numba import prange

from bertcli.kernels.loops import tiles
from bertcli.kernels.loops.compiled import kernel, row_loop
from bertcli.kernels.loops.elements import F, S, U, bits_of, fetch, float_of, rounded
from bertcli.kernels.loops.elementwise import ROWS, norm_row, sum_row
from bertcli.kernels.loops.rows import copy, in_order, new_factors, new_row

# T rows (tokens), H columns (hidden), A heads, D size per head, N sequences


@kernel
def add_and_norm_in_place(x, bias, residual, weight, shift, epsilon):
    """Write LayerNorm(x + bias + residual), [T, H], to `x`."""
    for block in prange(-(-len(x) // ROWS)):
        kept, total = new_factors(x.shape[1]), new_row(x.shape[1])
        for t in range(block * ROWS, min(len(x), (block + 1) * ROWS)):
            sum_row(x[t], bias, kept, residual[t], total)
            norm_row(total, weight, shift, epsilon, x[t])


@row_loop
def _exponentials(scores, scaling):
    """Make e to the (s - highest) * scaling of each score, to 1.1e-4 of it, and return their sum: bfloat16 has less."""
    highest = in_order(bits_of(scores[0]))
    for j in range(scores.size):
        highest = max(highest, in_order(bits_of(scores[j])))
    top, total = float_of(U(in_order(highest))), F(0)
    for j in range(scores.size):
        power = (scores[j] - top) * scaling + F(127)
        power = F(12) if power < F(12) else power
        whole = S(power)
        f = power - F(whole)
        power = ((F(0.0782679361) * f + F(0.226307724)) * f + F(0.69542434)) * f + F(1)
        power *= float_of(U(whole << S(23)))
        total += power
        scores[j] = power
    return total


@row_loop
def _divided(x, total, y):
    inverse = F(1) / total
    for j in range(x.size):
        y[j] = rounded(x[j] * inverse, y)


@row_loop
def _stand(words, first, step, count, panel):
    """Put rows of words, `step` apart, as columns into a panel, [D / 2, 16]; zeros where there are fewer."""
    for d in range(len(panel)):
        for j in range(count):
            panel[d, j] = words[first + j * step + d]
    panel[:, count:] = U(0)


@row_loop
def _interleave(upper, lower, panels, row):
    """Put two rows, [D], into a row of panels, [D / 16, _, 16], a pair a word."""
    for panel in range(len(panels)):
        for j in range(16):
            d = 16 * panel + j
            panels[panel, row, j] = U(upper[d]) | U(U(lower[d]) << U(16))


@row_loop
def _multiply(left, panels, product, used_inner, used_columns):
    """Write the product of `left`, [32, K] of bfloat16, and panels, [N / 16, K / 2, 16] of pairs, to `product`, [32, N].

    Of K and of N, the first are used, multiples of 32.
    """
    inner, columns = left.shape[1], product.shape[1]
    for column in range(0, used_columns, 32):
        tiles.zero(0)
        tiles.zero(1)
        tiles.zero(2)
        tiles.zero(3)
        for k in range(0, used_inner, 32):
            tiles.read(4, left, k, 2 * inner)
            tiles.read(5, left, 16 * inner + k, 2 * inner)
            tiles.read(6, panels, (column * inner + 16 * k) // 2, 64)
            tiles.read(7, panels, ((column + 16) * inner + 16 * k) // 2, 64)
            tiles.add_product(0, 4, 6)
            tiles.add_product(1, 4, 7)
            tiles.add_product(2, 5, 6)
            tiles.add_product(3, 5, 7)
        tiles.write(0, product, column, 4 * columns)
        tiles.write(1, product, column + 16, 4 * columns)
        tiles.write(2, product, 16 * columns + column, 4 * columns)
        tiles.write(3, product, 16 * columns + column + 16, 4 * columns)


@kernel
def attention(states, boundaries, scaling, context, is_causal):
    """Write attention within sequences by the matrix units to `context`, [T, A, D].

    `states` are query, key and value, [T, 3, A, D] of bfloat16, D a multiple of 32; `boundaries` are [N + 1]. In causal attention, the blocks of 32 tokens after a query's own are skipped.
    """
    count, last = len(boundaries) - 1, len(states) - 1
    heads, size = states.shape[2:]
    words, step = states.reshape(-1).view(U), 3 * heads * size // 2
    nothing = np.zeros(size, np.uint16)
    parts = -(-heads // 2)
    for task in prange(parts * count):
        part, n = task // count, task % count
        start, length = boundaries[n], boundaries[n + 1] - boundaries[n]
        padded = -(-length // 32) * 32
        keys = new_row(padded * size // 2).view(U).reshape(padded // 16, size // 2, 16)
        values = new_row(padded * size // 2).view(U).reshape(size // 16, padded // 2, 16)
        queries = new_row(16 * size).view(np.uint16).reshape(32, size)
        scores = new_row(32 * padded).reshape(32, padded)
        weights = new_row(16 * padded).view(np.uint16).reshape(32, padded)
        far = padded * (not is_causal)  # more than there are columns, unless attention is causal
        totals, means = np.empty(32, F), new_row(32 * size).reshape(32, size)
        tiles.take()
        for a in range(part * heads // parts, (part + 1) * heads // parts):
            for j in range(0, padded, 16):
                for ahead in range(start + j + 16, start + j + 32):
                    fetch(states[min(ahead, last), 1, a])
                    fetch(states[min(ahead, last), 2, a])
                key = (start + j) * step + (heads + a) * size // 2
                _stand(words, key, step, max(0, min(16, length - j)), keys[j // 16])
            for j in range(0, padded, 2):
                upper = states[start + j, 2, a] if j < length else nothing
                _interleave(upper, states[start + j + 1, 2, a] if j + 1 < length else nothing, values, j // 2)
            for first in range(start, start + length, 32):
                there = min(32, start + length - first)
                for i in range(there):
                    queries[i] = states[first + i, 0, a]
                queries[there:] = 0
                used = min(padded, first - start + 32 + far)
                _multiply(queries, keys, scores, size, used)
                for i in range(there):
                    seen = min(length, first - start + i + 1 + far)
                    scores[i, seen:used] = F(-np.inf)  # whose weights, of next to nothing, meet values of 0
                    totals[i] = _exponentials(scores[i][:used], F(scaling * 1.44269504))
                copy(scores[:there].reshape(-1), weights.reshape(-1))
                _multiply(weights, values, means, used, size)
                for i in range(there):
                    _divided(means[i], totals[i], context[first + i, a])
        tiles.release()
