"""Loops that pass once over arrays where torch passes several times: dropout, GELU, LayerNorm of a sum, Adam."""

import math

import numpy as np
from numba import prange
from numba.np.unsafe.ndarray import to_fixed_tuple

from bertcli.kernels.loops.compiled import exact_loop, kernel, row_loop, scalar
from bertcli.kernels.loops.elements import F, array_at, fetch, load, rounded
from bertcli.kernels.loops.rows import copy as copy_row
from bertcli.kernels.loops.rows import draw, exp, new_factors, new_row, times

# T rows (tokens), H columns (hidden); a mask is as next_mask gives it. Threads share the blocks of a kernel; LLVM turns
# the loop over a row into vectors. Sums are in float32, and what is written is rounded once.

ROWS = 32  # of a block
ELEMENTS = 1 << 12  # of a block, where there are no rows
NOTHING = np.empty(0, np.float32)


@kernel
def drop(x, y, mask):
    """Write `x`, [T, H], times its mask to `y`."""
    for block in prange(-(-len(x) // ROWS)):
        kept = new_factors(x.shape[1])
        for t in range(block * ROWS, min(len(x), (block + 1) * ROWS)):
            draw(kept, mask[3][t], mask)
            times(x[t], kept, y[t])


@scalar
def gelu_of(value, is_tanh):
    """The normal distribution function at a value, to 1e-7 (Abramowitz and Stegun 7.1.26), and the slope of GELU there."""
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
        share, slope = gelu_of(value, is_tanh)
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
def sum_row(x, bias, kept, residual, total):
    """Write (x + bias) times its factors + residual."""
    for j in range(x.size):
        total[j] = rounded((load(x, j) + load(bias, j)) * kept[j] + load(residual, j), total)


@row_loop
def norm_row(total, weight, shift, epsilon, y):
    """Write LayerNorm of a row; return the mean and the inverse deviation."""
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
    """Write LayerNorm(dropout(x + bias) + residual), [T, H]; for the backward pass its input, mean and inverse deviation."""
    for block in prange(-(-len(x) // ROWS)):
        kept = new_factors(x.shape[1])
        for t in range(block * ROWS, min(len(x), (block + 1) * ROWS)):
            draw(kept, mask[3][t], mask)
            sum_row(x[t], bias, kept, residual[t], total[t])
            moments[t, 0], moments[t, 1] = norm_row(total[t], weight, shift, epsilon, y[t])


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
        kept, given = new_factors(columns), new_row(columns)
        for t in range(block * ROWS, min(len(gradient), (block + 1) * ROWS)):
            draw(kept, mask[3][t], mask)
            _norm_backward(gradient[t], total[t], moments[t], weight, given, sums[block, 0], sums[block, 1])
            _sum_backward(given, kept, of_x[t], of_residual[t], sums[block, 2])


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
    """Write `x`, [T, H] of bfloat16, T a multiple of 32, to [H, T], four tokens at once: `y` is [H, T / 4] of int64."""
    width = 128  # columns at a time, which stay in the cache
    for block in prange(len(x) // 32):
        fours = np.empty((8, width), np.int64)
        for start in range(0, x.shape[1], width):
            some = min(width, x.shape[1] - start)
            for i in range(8):
                a, b, c, d = x[32 * block + 4 * i : 32 * block + 4 * i + 4, start : start + some]
                _side_by_side(a, b, c, d, fours[i, :some])
            _turn(fours[:, :some], y[start : start + some], block * 8)


@row_loop
def _square_sum(values):
    total = F(0)
    for i in range(values.size):
        value = load(values, i)
        total += value * value
    return total


@kernel
def square_sums(parts, addresses, shapes, like):
    """Write the sum of the squares of each row of arrays, [n, H] each, to their sums, [n].

    `parts`: the number of an array, and where a part of its rows begins and ends. `addresses`: of the arrays and of their
    sums. `like`: an array of the same precision.
    """
    for part in prange(len(parts)):
        number, first, last = parts[part]
        width = shapes[number, 1]
        sums = array_at(addresses[number, 1], first, last, NOTHING)
        for row in range(last - first):
            values = array_at(addresses[number, 0], (first + row) * width, (first + row + 1) * width, like)
            fetch(values)
            sums[row] = _square_sum(values)


@exact_loop
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
def adam(parts, addresses, numbers, gradients, copies):
    """Update weights and their moments, and the copies of them.

    `parts`: the number of a weight, and where a part of its elements begins and ends. `addresses`: of each weight, its
    gradient, its moments and its copy, 0 where there is none. `gradients`, `copies`: arrays of their precisions.
    """
    for part in prange(len(parts)):
        number, first, last = parts[part]
        weight, gradient = addresses[number, 0], addresses[number, 1]
        mean, square, copy = addresses[number, 2], addresses[number, 3], addresses[number, 4]
        _adam(
            array_at(weight, first, last, NOTHING),
            array_at(gradient, first, last, gradients),
            array_at(mean, first, last, NOTHING),
            array_at(square, first, last, NOTHING),
            array_at(copy, first, last if copy else first, copies),
            to_fixed_tuple(numbers[number], 9),
        )


@row_loop
def _is_zero(values):
    total = F(0)
    for i in range(values.size):
        total += abs(values[i])
    return total == F(0)


@exact_loop
def _decay(weight, numbers):
    """`_adam` where the gradient and both moments are zero."""
    decay = numbers[8]
    for i in range(weight.size):
        weight[i] -= F(0) + decay * weight[i]


@kernel
def adam_rows(weight, gradient, mean, square, copy, rows, done, numbers):
    """Make the updates of some rows, [n], that are not done yet, all after the first `done` of a row.

    The arrays of the weight, [V * H], are as in `adam`; `numbers`, [updates, 9], has those of each. The last update is by
    `gradient`, [n, H], where it has rows; the others, which rows without a gradient missed, are by zeros.
    """
    columns = gradient.shape[1]
    zeros = np.zeros(columns, gradient.dtype)
    for index in prange(len(rows)):
        row = rows[index]
        part = slice(row * columns, (row + 1) * columns)
        missed = len(numbers) - len(gradient[index : index + 1])
        is_zero = done[row] < missed and _is_zero(mean[part]) and _is_zero(square[part])
        for update in range(done[row], len(numbers)):
            if is_zero and update < missed:
                _decay(weight[part], numbers[update])
            else:
                given = zeros if update < missed else gradient[index]
                _adam(weight[part], given, mean[part], square[part], copy[:0], to_fixed_tuple(numbers[update], 9))
        done[row] = len(numbers)
        if copy.size:
            copy_row(weight[part], copy[part])
