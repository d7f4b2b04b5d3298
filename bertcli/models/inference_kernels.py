"""Kernels of a pass without a gradient (see models/kernels.py): nothing is kept, so they write where they read."""

import numpy as np
from numba import prange

from bertcli.models.compiled import F, S, U, fetch, float_of, kernel, load, rounded, row_loop, scalar
from bertcli.models.kernels import ROWS, _gelu_of, _norm, _nothing_dropped, _row, _sum

# T rows (tokens), H columns (hidden), M matrices of scores, [S, S] each, of N sequences


@row_loop
def _gelu_in_place(x, is_tanh):
    for j in range(x.size):
        value = load(x, j)
        x[j] = rounded(value * _gelu_of(value, is_tanh)[0], x)


@kernel
def gelu_in_place(x, is_tanh):
    """Write the GELU of `x`, [T, H], to it."""
    for t in prange(len(x)):
        fetch(x[t])
        _gelu_in_place(x[t], is_tanh)


@kernel
def add_and_norm_in_place(x, bias, residual, weight, shift, epsilon):
    """Write LayerNorm(x + bias + residual), [T, H], to `x`."""
    for block in prange(-(-len(x) // ROWS)):
        kept, total = _nothing_dropped(x.shape[1]), _row(x.shape[1])
        for t in range(block * ROWS, min(len(x), (block + 1) * ROWS)):
            _sum(x[t], bias, kept, residual[t], total)
            _norm(total, weight, shift, epsilon, x[t])


@scalar
def _in_order(bits):
    """The bits of a bfloat16 as a whole number of the same order, and back."""
    bits = np.int16(bits)
    return np.int16(bits ^ np.int16(np.int16(bits >> np.int16(15)) & np.int16(0x7FFF)))


@row_loop
def _exponentials(scores, scaling):
    """Make e to the (s - highest) * scaling of each score, to 1.1e-4 of it, which bfloat16 does not see; return their sum.

    This loop may sum and write, for there is one array.
    """
    highest = np.int16(-0x8000)
    for j in range(scores.size):
        highest = max(highest, _in_order(scores[j]))
    top = float_of(U(np.uint16(_in_order(highest))) << U(16))
    total = F(0)
    for j in range(scores.size):
        power = (load(scores, j) - top) * scaling + F(127)
        power = F(12) if power < F(12) else power
        whole = S(power)
        f = power - F(whole)
        power = ((F(0.0782679361) * f + F(0.226307724)) * f + F(0.69542434)) * f + F(1)
        power *= float_of(U(whole << S(23)))
        total += power
        scores[j] = rounded(power, scores)
    return total


@kernel
def exponentials(scores, lengths, totals, scaling):
    """Make weights of scores of bfloat16, [M, S, S], that are still to be divided by their totals, float32 [M, S]."""
    heads = len(scores) // len(lengths)
    for m in prange(len(scores)):
        length = lengths[m // heads]
        for i in range(length):
            totals[m, i] = _exponentials(scores[m, i, :length], F(scaling * 1.44269504))
            scores[m, i, length:] = 0
        scores[m, length:] = 0


@row_loop
def _divided(x, total, y):
    inverse = F(1) / total
    for j in range(x.size):
        y[j] = rounded(load(x, j) * inverse, y)


@kernel
def by_tokens_divided(states, totals, lengths, rows):
    """Write what lies by heads, [n, A, S, D], divided by totals, [n, A, S], by tokens, [t, A, D]."""
    for n in prange(len(states)):
        first = lengths[:n].sum()
        for i in range(lengths[n]):
            for a in range(states.shape[1]):
                _divided(states[n, a, i], totals[n, a, i], rows[first + i, a])
