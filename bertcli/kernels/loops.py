"""Several passes over an array made as one, compiled for the CPU at hand; elsewhere torch has its own.

A kernel is a loop over blocks, which threads share; within one, a plain loop over a row, which LLVM turns into vectors.
Sums are in float32, and what is written is rounded once.
"""

import math

import numpy as np
from numba import prange

from bertcli.kernels.compiled import F, S, U, bits_of, fetch, float_of, kernel, load, rounded, row_loop, scalar

# T rows (tokens), H columns (hidden), M matrices of scores, [S, S] each, of N sequences; a mask is as next_mask gives it

ROWS = 32  # of a block
ELEMENTS = 1 << 12  # of a block, where there are no rows


@scalar
def exp(x):
    """Return e to the x <= 0, to 5e-7 of it for x > -10: 2 to a whole number times a polynomial of what is left, |f| <= 0.5."""
    # Above where numbers lose digits, and time; so written that what is no number stays none.
    x = F(-80) if x < F(-80) else x
    whole = np.floor(x * F(1.44269504) + F(0.5))
    f = x * F(1.44269504) - whole
    power = F(0.0013266971)
    for factor in (F(0.00967546), F(0.055507425), F(0.24022122), F(0.69314694), F(1.0000001)):
        power = power * f + factor
    return power * float_of(U(U(S(whole) + S(127)) << U(23)))


@scalar
def _mixed(bits):
    """lowbias32 of hash-prospector: a one-to-one function of 32 bits."""
    bits = U(U(bits ^ U(bits >> U(16))) * U(0x7FEB352D))
    bits = U(U(bits ^ U(bits >> U(15))) * U(0x846CA68B))
    return U(bits ^ U(bits >> U(16)))


@row_loop
def _draw(kept, row, mask):
    """Fill a row with 0, where an element is dropped, or the scale; one where nothing is to be stays as it is.

    Each element has 16 bits of a function of the key, the row and the column, and is dropped where they are too few.
    """
    key, threshold, scale = mask
    if threshold == 0:
        return
    half = kept.size // 2  # `kept` has an even number of elements, of 32 bits for two
    low, high, below = U(key), U(key >> np.uint64(32)), U(threshold)
    first = U(row * half)
    for j in range(half):
        bits = _mixed(U(_mixed(U(U(first + U(j)) ^ low)) + high))
        kept[j] = F(0) if U(bits & U(0xFFFF)) < below else scale
        kept[half + j] = F(0) if U(bits >> U(16)) < below else scale


@row_loop
def _row(columns):
    """Room for a row, from where vectors do not lie across lines of the cache."""
    room = np.empty(columns + 16, F)
    first = -(room.ctypes.data // 4) % 16
    return room[first : first + columns]


@row_loop
def _nothing_dropped(columns):
    """A row of ones, of an even number of elements."""
    kept = _row(columns + columns % 2)
    kept[:] = F(1)
    return kept


@row_loop
def _times(x, kept, y):
    for j in range(x.size):
        y[j] = rounded(load(x, j) * kept[j], y)


@kernel
def drop(x, y, mask):
    """Write `x`, [T, H], times its mask to `y`."""
    for block in prange(-(-len(x) // ROWS)):
        kept = _nothing_dropped(x.shape[1])
        for t in range(block * ROWS, min(len(x), (block + 1) * ROWS)):
            _draw(kept, t, mask)
            _times(x[t], kept, y[t])


@scalar
def _gelu_of(value, is_tanh):
    """How much of a value GELU lets through, and its slope there.

    The normal distribution's share below it is to 1e-7 (7.1.26 of Abramowitz and Stegun's Handbook).
    """
    if is_tanh:
        square = value * value
        power = exp(F(-1.59576912) * abs(value) * (F(1) + F(0.044715) * square))
        share = (power if value < F(0) else F(1)) / (F(1) + power)
        return share, share + value * share * (F(1) - share) * (F(1.59576912) + F(0.21406859) * square)
    power = exp(F(-0.5) * value * value)
    t = F(1) / (F(1) + F(0.23164189) * abs(value))
    tail = F(0.5307027)
    for factor in (F(-0.726576), F(0.71070688), F(-0.14224837), F(0.1274148)):
        tail = tail * t + factor
    tail *= t * power
    share = tail if value < F(0) else F(1) - tail
    return share, share + value * F(0.39894228) * power


@row_loop
def _gelu(x, bias, y, is_tanh):
    for j in range(x.size):
        value = load(x, j) + load(bias, j)
        share, slope = _gelu_of(value, is_tanh)
        x[j] = rounded(slope, x)
        y[j] = rounded(value * share, y)


@row_loop
def _times_and_sum(gradient, slope, of_x, of_bias):
    for j in range(slope.size):
        given = load(gradient, j) * load(slope, j)
        of_x[j] = rounded(given, of_x)
        of_bias[j] += given


@kernel
def gelu(x, bias, y, is_tanh):
    """Write the GELU of `x`, [T, H], and a bias, [H], to `y`, and its slope there to `x`."""
    for t in prange(len(x)):
        fetch(x[t])
        _gelu(x[t], bias, y[t], is_tanh)


@kernel
def gelu_backward(gradient, slope, of_x, of_bias):
    """Write the gradient of `x`, and add those of the bias up by blocks, float32 [blocks, H]."""
    for block in prange(len(of_bias)):
        for t in range(block * ROWS, min(len(slope), (block + 1) * ROWS)):
            _times_and_sum(gradient[t], slope[t], of_x[t], of_bias[block])


@row_loop
def _sum(x, bias, kept, residual, total):
    for j in range(x.size):
        total[j] = rounded((load(x, j) + load(bias, j)) * kept[j] + load(residual, j), total)


@row_loop
def _norm(total, weight, shift, epsilon, y):
    mean = F(0)
    for j in range(total.size):
        mean += load(total, j)
    mean /= F(total.size)
    variance = F(0)
    for j in range(total.size):
        apart = load(total, j) - mean
        variance += apart * apart
    inverse = F(1) / math.sqrt(variance / F(total.size) + F(epsilon))
    for j in range(total.size):
        y[j] = rounded((load(total, j) - mean) * inverse * load(weight, j) + load(shift, j), y)
    return mean, inverse


@kernel
def add_and_norm(x, bias, residual, weight, shift, total, y, moments, epsilon, mask):
    """Write LayerNorm(dropout(x + bias) + residual), [T, H]; for the way back what it read, its mean and inverse deviation."""
    for block in prange(-(-len(x) // ROWS)):
        kept = _nothing_dropped(x.shape[1])
        for t in range(block * ROWS, min(len(x), (block + 1) * ROWS)):
            _draw(kept, t, mask)
            _sum(x[t], bias, kept, residual[t], total[t])
            moments[t, 0], moments[t, 1] = _norm(total[t], weight, shift, epsilon, y[t])


@row_loop
def _norm_backward(gradient, total, moments, weight, given, of_weight, of_shift):
    mean, inverse = moments[0], moments[1]
    average, along = F(0), F(0)
    for j in range(given.size):
        weighted = load(gradient, j) * load(weight, j)
        average += weighted
        along += weighted * (load(total, j) - mean) * inverse
    average /= F(given.size)
    along /= F(given.size)
    for j in range(given.size):
        g, normed = load(gradient, j), (load(total, j) - mean) * inverse
        given[j] = (g * load(weight, j) - average - normed * along) * inverse
        of_weight[j] += g * normed
        of_shift[j] += g


@row_loop
def _sum_backward(given, kept, of_x, of_residual, of_bias):
    for j in range(given.size):
        of_residual[j] = rounded(given[j], of_residual)
        of_x[j] = rounded(given[j] * kept[j], of_x)
        of_bias[j] += given[j] * kept[j]


@kernel
def add_and_norm_backward(gradient, total, moments, weight, of_x, of_residual, sums, mask):
    """Write the gradients of `x` and `residual`; add those of weight, shift and bias up by blocks, float32 [blocks, 3, H]."""
    for block in prange(len(sums)):
        columns = gradient.shape[1]
        kept, given = _nothing_dropped(columns), _row(columns)
        for t in range(block * ROWS, min(len(gradient), (block + 1) * ROWS)):
            _draw(kept, t, mask)
            _norm_backward(gradient[t], total[t], moments[t], weight, given, sums[block, 0], sums[block, 1])
            _sum_backward(given, kept, of_x[t], of_residual[t], sums[block, 2])


@row_loop
def _copy(x, y):
    for j in range(x.size):
        y[j] = rounded(load(x, j), y)


@kernel
def by_heads(rows, lengths, states):
    """Write what lies by tokens, [t, P, A, D], by heads, [P, n, A, S, D]: sequence after sequence, each of its length."""
    parts, count, heads = states.shape[:3]
    for m in prange(parts * count * heads):
        p, n, a = m // heads // count, m // heads % count, m % heads
        first = lengths[:n].sum()
        for i in range(lengths[n]):
            _copy(rows[first + i, p, a], states[p, n, a, i])
        states[p, n, a, lengths[n] :] = 0


@kernel
def by_tokens(states, lengths, rows):
    """Write what lies by heads by tokens."""
    for n in prange(states.shape[1]):
        first = lengths[:n].sum()
        for i in range(lengths[n]):
            for p in range(states.shape[0]):
                for a in range(states.shape[2]):
                    _copy(states[p, n, a, i], rows[first + i, p, a])


@row_loop
def _side_by_side(a, b, c, d, fours):
    for j in range(fours.size):
        fours[j] = np.int64(a[j]) | np.int64(b[j]) << 16 | np.int64(c[j]) << 32 | np.int64(d[j]) << 48


@row_loop
def _turn(fours, columns, first):
    for j in range(fours.shape[1]):
        for i in range(8):
            columns[j, first + i] = fours[i, j]


@kernel
def transpose(x, y):
    """Write `x`, [T, H] of bfloat16, T a multiple of 32, to [H, T], which `y`, [H, T / 4] of int64, is.

    Four tokens of a column move at once.
    """
    width = 128  # columns at a time, which stay in the cache
    for block in prange(len(x) // 32):
        fours = np.empty((8, width), np.int64)
        for start in range(0, x.shape[1], width):
            some = min(width, x.shape[1] - start)
            for i in range(8):
                a, b, c, d = x[32 * block + 4 * i : 32 * block + 4 * i + 4, start : start + some]
                _side_by_side(a, b, c, d, fours[i, :some])
            _turn(fours[:, :some], y[start : start + some], block * 8)


@scalar
def in_order(bits):
    """The bits of a float32 as a whole number of the same order, of which LLVM finds the highest in vectors; and back."""
    bits = S(bits)
    return S(bits ^ S(S(bits >> S(31)) & S(0x7FFFFFFF)))


@row_loop
def _highest(scores, row):
    """The highest element, and all in float32."""
    highest = S(-0x80000000)
    for j in range(row.size):
        row[j] = load(scores, j)
        highest = max(highest, in_order(bits_of(row[j])))
    return float_of(U(in_order(highest)))


@row_loop
def _softmax(row, highest, scaling, weights):
    for j in range(row.size):
        row[j] = exp((row[j] - highest) * scaling)
    total = F(0)
    for j in range(row.size):
        total += row[j]
    inverse = F(1) / total
    for j in range(row.size):
        weights[j] = rounded(row[j] * inverse, weights)


@kernel
def softmax(scores, lengths, read, scaling, mask):
    """Make weights of scores, [M, S, S], each matrix up to the length of its sequence, [N]; write them with masks to `read`."""
    heads, size = len(scores) // len(lengths), scores.shape[1]
    for m in prange(len(scores)):
        length = lengths[m // heads]
        kept, row = _nothing_dropped(size), _row(length)
        for i in range(length):
            _softmax(row, _highest(scores[m, i], row), F(scaling), scores[m, i])
            scores[m, i, length:] = 0
            if mask[1] > 0:
                _draw(kept, m * size + i, mask)
                _times(scores[m, i], kept, read[m, i])
        scores[m, length:] = 0
        read[m, length:] = 0


@row_loop
def _softmax_backward(gradient, weights, kept, scaling):
    along = F(0)
    for j in range(weights.size):
        along += load(gradient, j) * kept[j] * load(weights, j)
    for j in range(weights.size):
        given = load(gradient, j) * kept[j] - along
        gradient[j] = rounded(given * load(weights, j) * scaling, gradient)


@kernel
def softmax_backward(gradient, weights, lengths, read, scaling, mask):
    """Make the gradient of the scores of that of the weights; write the weights with their masks to `read` again."""
    heads, size = len(weights) // len(lengths), weights.shape[1]
    for m in prange(len(weights)):
        length = lengths[m // heads]
        kept = _nothing_dropped(size)
        for i in range(length):
            if mask[1] > 0:
                _draw(kept, m * size + i, mask)
                _times(weights[m, i], kept, read[m, i])
            _softmax_backward(gradient[m, i], weights[m, i], kept, F(scaling))
        gradient[m, length:] = 0
        read[m, length:] = 0


@row_loop
def _log_sum(row, highest):
    total = F(0)
    for j in range(row.size):
        total += exp(row[j] - highest)
    return highest + math.log(total)


@kernel
def log_sums(logits, sums):
    """Write the logarithm of the sum of the exponentials of each row of `logits`, [M, V], to `sums`, [M]."""
    for m in prange(len(logits)):
        row = _row(logits.shape[1])
        fetch(logits[m])
        sums[m] = _log_sum(row, _highest(logits[m], row))


@row_loop
def _shares(row, log_sum, factor, given):
    for j in range(row.size):
        given[j] = rounded(factor * exp(load(row, j) - log_sum), given)


@kernel
def cross_entropy_backward(logits, labels, sums, factor, given):
    """Write `factor` times the gradient of the summed cross entropies of `logits`, [M, V], and labels, [M]."""
    for m in prange(len(logits)):
        fetch(logits[m])
        _shares(logits[m], sums[m], F(factor), given[m])
        label = labels[m]
        given[m, label] = rounded(F(factor) * (exp(load(logits[m], label) - sums[m]) - F(1)), given)


@row_loop
def _square_sum(values):
    total = F(0)
    for i in range(values.size):
        value = load(values, i)
        total += value * value
    return total


@kernel
def square_sums(values, sums):
    """Write the sum of the squares of each block of `values`, [n], to `sums`, [blocks]."""
    for block in prange(len(sums)):
        part = values[block * ELEMENTS : (block + 1) * ELEMENTS]
        fetch(part)
        sums[block] = _square_sum(part)


@row_loop
def _adam(weight, gradient, mean, square, copy, numbers):
    factor, beta1, new1, beta2, new2, rate, root, epsilon, decay = numbers
    for i in range(weight.size):
        g = load(gradient, i) * factor
        mean[i] = beta1 * mean[i] + new1 * g
        square[i] = beta2 * square[i] + new2 * g * g
        weight[i] -= rate * mean[i] / (math.sqrt(square[i]) * root + epsilon) + decay * weight[i]
    for i in range(copy.size):
        copy[i] = rounded(weight[i], copy)


@kernel
def adam(weight, gradient, mean, square, copy, numbers):
    """Update a weight and its moments, each [n], and the copy of it, which may be empty."""
    for block in prange(-(-len(weight) // ELEMENTS)):
        part = slice(block * ELEMENTS, (block + 1) * ELEMENTS)
        _adam(weight[part], gradient[part], mean[part], square[part], copy[part], numbers)
