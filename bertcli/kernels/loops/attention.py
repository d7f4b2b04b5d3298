"""Loops of attention between its products, and of cross entropy, which has the same softmax."""

import math

from numba import prange

from bertcli.kernels.loops.compiled import kernel, row_loop
from bertcli.kernels.loops.elements import F, S, U, bits_of, fetch, float_of, load, rounded
from bertcli.kernels.loops.rows import copy, draw, exp, in_order, new_factors, new_row, of_head, times

# n sequences, A heads, S the longest, D size per head; M matrices of scores, [S, S] each, or masked tokens; V vocabulary


@kernel
def by_heads(rows, lengths, states):
    """Write what lies by tokens, [t, P, A, D], by heads, [P, n, A, S, D]: sequence after sequence, each of its length."""
    parts, count, heads = states.shape[:3]
    for m in prange(parts * count * heads):
        p, n, a = m // heads // count, m // heads % count, m % heads
        first = lengths[:n].sum()
        for i in range(lengths[n]):
            copy(rows[first + i, p, a], states[p, n, a, i])
        states[p, n, a, lengths[n] :] = 0


@kernel
def by_tokens(states, lengths, rows):
    """Write what lies by heads by tokens."""
    for n in prange(states.shape[1]):
        first = lengths[:n].sum()
        for i in range(lengths[n]):
            for p in range(states.shape[0]):
                for a in range(states.shape[2]):
                    copy(states[p, n, a, i], rows[first + i, p, a])


@row_loop
def _highest(scores, row):
    """The highest element, and all in float32."""
    highest = S(-0x80000000)
    for j in range(row.size):
        row[j] = load(scores, j)
        highest = max(highest, in_order(bits_of(row[j])))
    return float_of(U(in_order(highest)))


@row_loop
def softmax_row(row, highest, scaling, weights):
    """Write the shares of a row of scores, which it changes."""
    for j in range(row.size):
        row[j] = exp((row[j] - highest) * scaling)
    total = F(0)
    for j in range(row.size):
        total += row[j]
    inverse = F(1) / total
    for j in range(row.size):
        weights[j] = rounded(row[j] * inverse, weights)


@kernel
def softmax(scores, lengths, read, scaling, mask, is_causal):
    """Make weights of scores, [M, S, S], each matrix up to the length of its sequence, [N]; write them with masks to `read`.

    In causal attention, a row ends at its own token.
    """
    heads, size = len(scores) // len(lengths), scores.shape[1]
    for m in prange(len(scores)):
        length, first = lengths[m // heads], lengths[: m // heads].sum()
        kept, row = new_factors(size), new_row(length)
        for i in range(length):
            seen = i + 1 if is_causal else length
            softmax_row(row[:seen], _highest(scores[m, i], row[:seen]), F(scaling), scores[m, i])
            scores[m, i, seen:] = 0
            if mask[1] > 0:
                draw(kept, of_head(mask[3][first + i], m % heads), mask)
                times(scores[m, i], kept, read[m, i])
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
def softmax_backward(gradient, weights, lengths, read, scaling, mask, is_causal):
    """Make the gradient of the scores of that of the weights; write the weights with their masks to `read` again."""
    heads, size = len(weights) // len(lengths), weights.shape[1]
    for m in prange(len(weights)):
        length, first = lengths[m // heads], lengths[: m // heads].sum()
        kept = new_factors(size)
        for i in range(length):
            if mask[1] > 0:
                draw(kept, of_head(mask[3][first + i], m % heads), mask)
                times(weights[m, i], kept, read[m, i])
            seen = i + 1 if is_causal else size
            _softmax_backward(gradient[m, i], weights[m, i][:seen], kept, F(scaling))
            gradient[m, i, seen:] = 0
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
        row = new_row(logits.shape[1])
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
