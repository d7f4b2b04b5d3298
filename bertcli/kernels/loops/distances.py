"""Loops of attention whose scores have parts by how far tokens are apart, between its products (XLNet)."""

from numba import prange

from bertcli.kernels.loops.attention import softmax_row
from bertcli.kernels.loops.compiled import kernel, row_loop
from bertcli.kernels.loops.elements import F, S, U, bits_of, float_of, load, rounded
from bertcli.kernels.loops.rows import draw, in_order, new_factors, new_row, of_head, times

# A heads, n sequences, Q queries, K keys, R distances: 2K, of which the Kth is none

NOT_SEEN = F(-1e30)


@row_loop
def _add(by_content, by_distance, row):
    for j in range(row.size):
        row[j] = load(by_content, j) + load(by_distance, j)


@row_loop
def _add_backwards(by_content, by_distance, row):
    last = row.size - 1
    for j in range(row.size):
        row[j] = load(by_content, j) + load(by_distance, last - j)


@row_loop
def _hide(row, hidden, differs, by_type):
    """Add what keys of another type have, and hide some; return the highest."""
    highest = S(-0x80000000)
    for j in range(row.size):
        score = row[j] + by_type * F(differs[j])
        row[j] = NOT_SEEN if hidden[j] else score
        highest = max(highest, in_order(bits_of(row[j])))
    return float_of(U(in_order(highest)))


@kernel
def softmax(by_content, by_distance, by_type, places, is_backwards, hidden, differs, shares, read, mask):
    """Write the shares of scores, [A, n, Q, K], whose parts are added here, and with masks to `read`."""
    _, count, queries, keys = shares.shape
    for m in prange(len(shares) * count):
        a, n = m // count, m % count
        kept, row = new_factors(keys), new_row(keys)
        for i in range(queries):
            at = places[n, i]
            if is_backwards[n] > 0:
                _add_backwards(by_content[a, n, i], by_distance[a, n, i, at : at + keys], row)
            else:
                _add(by_content[a, n, i], by_distance[a, n, i, keys - 1 - at : 2 * keys - 1 - at], row)
            highest = _hide(row, hidden[n, i], differs[n, i], load(by_type[a, n], i))
            softmax_row(row, highest, F(1), shares[a, n, i])
            if mask[1] > 0:
                draw(kept, of_head(mask[3][n * queries + i], a), mask)
                times(shares[a, n, i], kept, read[a, n, i])


@row_loop
def _along(gradient, shares, kept):
    along = F(0)
    for j in range(shares.size):
        along += load(gradient, j) * kept[j] * load(shares, j)
    return along


@row_loop
def _slopes(gradient, shares, kept, along, row):
    for j in range(row.size):
        row[j] = (load(gradient, j) * kept[j] - along) * load(shares, j)


@row_loop
def _write(row, given):
    for j in range(row.size):
        given[j] = rounded(row[j], given)


@row_loop
def _write_backwards(row, given):
    last = row.size - 1
    for j in range(row.size):
        given[last - j] = rounded(row[j], given)


@row_loop
def _of_others(row, differs):
    total = F(0)
    for j in range(row.size):
        total += row[j] * F(differs[j])
    return total


@kernel
def softmax_backward(gradient, shares, places, is_backwards, differs, mask, by_content, by_distance, by_type):
    """Write the gradients of the parts of the scores."""
    _, count, queries, keys = shares.shape
    for m in prange(len(shares) * count):
        a, n = m // count, m % count
        kept, row = new_factors(keys), new_row(keys)
        for i in range(queries):
            draw(kept, of_head(mask[3][n * queries + i], a), mask)
            along = _along(gradient[a, n, i], shares[a, n, i], kept)
            _slopes(gradient[a, n, i], shares[a, n, i], kept, along, row)
            _write(row, by_content[a, n, i])
            by_type[a, n, i] = rounded(_of_others(row, differs[n, i]), by_type)
            at, distances = places[n, i], by_distance[a, n, i]
            distances[:] = 0
            if is_backwards[n] > 0:
                _write_backwards(row, distances[at : at + keys])
            else:
                _write(row, distances[keys - 1 - at : 2 * keys - 1 - at])
