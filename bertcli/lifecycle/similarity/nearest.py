"""The nearest of many vectors by their cosines: blocks of a matrix product, without an index."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from bertcli.lifecycle.similarity.vector_cache import TextVectors, Vectors

# N vectors of D numbers, Q queries, K nearest of each, B rows of a block

Numbers = NDArray[np.int64]
QUERIES_AT_ONCE = 256
PAIR_ROWS = 2048  # on each side of a block of pairs
DIGITS = 6  # of a cosine; further ones differ with the number of threads


def nearest(vectors: TextVectors, queries: Vectors, count: int) -> tuple[Vectors, Numbers]:
    """The cosines and the rows of the `count` nearest vectors of each query, nearest first, both [Q, K]."""
    count = min(count, len(vectors.values))
    cosines, rows = np.empty((len(queries), 0), np.float32), np.empty((len(queries), 0), np.int64)
    asked = [queries[first : first + QUERIES_AT_ONCE] for first in range(0, len(queries), QUERIES_AT_ONCE)]
    for start, block in vectors.blocks():
        parts = [_best(each @ block.T, count) for each in asked]
        found, places = (np.concatenate(each) for each in zip(*parts, strict=True))
        cosines, rows = np.hstack([cosines, found]), np.hstack([rows, places + start])
        cosines, kept = _best(cosines, count)
        rows = np.take_along_axis(rows, kept, 1)
    return cosines, rows


def _best(cosines: Vectors, count: int) -> tuple[Vectors, Numbers]:
    """The `count` largest of each row, largest first, and their places; the first of equal ones comes first."""
    cosines = np.minimum(cosines, 1)  # beyond which rounding takes those of equal texts
    if count >= cosines.shape[1]:
        places = np.arange(cosines.shape[1])[None].repeat(len(cosines), 0)
    else:
        rounded = cosines.round(DIGITS)
        last = np.partition(rounded, -count, axis=1)[:, -count, None]
        equal, left = rounded == last, count - (rounded > last).sum(1, keepdims=True)
        places = np.nonzero((rounded > last) | (equal & (equal.cumsum(1) <= left)))[1].reshape(-1, count)
    kept = np.take_along_axis(cosines, places, 1)
    order = np.argsort(-kept.round(DIGITS), axis=1, kind="stable")
    return np.take_along_axis(kept, order, 1), np.take_along_axis(places, order, 1)


def near_pairs(
    vectors: TextVectors, threshold: float, count: int, advance: Callable[[int], object]
) -> tuple[Vectors, Numbers, int]:
    """The `count` nearest pairs with a cosine of at least `threshold`: cosines, [K], rows, [K, 2], and how many there are."""
    for _ in vectors.blocks():
        pass  # checks them
    cosines, rows, total = np.empty(0, np.float32), np.empty((0, 2), np.int64), 0
    starts = range(0, len(vectors.values), PAIR_ROWS)
    for first in starts:
        block = np.asarray(vectors.values[first : first + PAIR_ROWS])
        for second in starts[first // PAIR_ROWS :]:
            products = block @ vectors.values[second : second + PAIR_ROWS].T  # [B, B]
            if first == second:
                products[np.tril_indices(len(products))] = -np.inf  # each pair once, and no row with itself
            near = np.argwhere(products >= threshold - 10.0**-DIGITS)
            total += len(near)
            cosines = np.concatenate([cosines, products[near[:, 0], near[:, 1]]])
            rows = np.concatenate([rows, near + np.array([first, second])])
            (cosines,), (kept,) = _best(cosines[None], min(count, len(cosines)))
            rows = rows[kept]
        advance(len(block))
    return cosines, rows, total
