"""Randomness as a function of a key, such as (seed, step, row): there is no state to save."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray


def derive(*key: int) -> int:
    """Turn a key such as (seed, step, rank) into one 63-bit seed."""
    return int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0] >> np.uint64(1))


@lru_cache(maxsize=2)
def permutation(seed: int, epoch: int, count: int) -> NDArray[np.int64]:
    """The order of the rows in an epoch."""
    return np.random.Generator(np.random.Philox(derive(seed, epoch))).permutation(count)


def rows_of_step(seed: int, step: int, batch_size: int, count: int) -> NDArray[np.int64]:
    """The rows of the batch of one step, [batch_size]; an epoch may end within a batch."""
    places = np.arange(step * batch_size, (step + 1) * batch_size)
    epochs = places // count
    parts = [permutation(seed, int(n), count)[places[epochs == n] % count] for n in np.unique(epochs)]
    return np.concatenate(parts)


def uniform(key: int, *indices: NDArray[np.int64]) -> NDArray[np.float64]:
    """A number in [0, 1) for each tuple of indices, a function of it and the key alone (SplitMix64)."""
    state = np.full(indices[0].shape, key, dtype=np.uint64)
    for index in indices:
        state = _mix(state ^ _mix(index.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)))
    return (state >> np.uint64(11)).astype(np.float64) / (1 << 53)


def _mix(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))
