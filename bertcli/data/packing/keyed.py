"""Randomness as a function of a key, such as (seed, step, row): there is no state to save."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray


def derive(*key: int) -> int:
    """Turn a key such as (seed, step, rank) into one 63-bit seed."""
    return int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0] >> np.uint64(1))


@lru_cache(maxsize=2)
def permutation(seed: int, epoch: int, count: int) -> NDArray[np.int64]:
    """The order of the rows, or of the shards, in an epoch."""
    return np.random.Generator(np.random.Philox(derive(seed, epoch))).permutation(count)


def rows_of_step(seed: int, step: int, batch_size: int, count: int) -> NDArray[np.int64]:
    """The rows of the batch of one step, [batch_size]; an epoch may end within a batch."""
    return np.concatenate([permutation(seed, n, count)[places] for n, places in _places(step, batch_size, count)])


def _places(step: int, batch_size: int, count: int) -> list[tuple[int, NDArray[np.int64]]]:
    """The places of a batch in the order of its epoch, or of each of its epochs."""
    places = np.arange(step * batch_size, (step + 1) * batch_size)
    epochs = places // count
    return [(int(n), places[epochs == n] % count) for n in np.unique(epochs)]


@dataclass(frozen=True)
class WindowOrder:
    """An order of the rows of shards: the shards in random order, and the rows of a window of them in random order."""

    starts: tuple[int, ...]  # first row of each shard, and the number of all rows
    shards_per_window: int

    def rows_of_step(self, seed: int, step: int, batch_size: int) -> tuple[NDArray[np.int64], list[int]]:
        """The rows of the batch of one step, [batch_size], and the shards of the window after its last one."""
        parts, coming = [], []
        for epoch, places in _places(step, batch_size, self.starts[-1]):
            ends = self._ends(seed, epoch)
            windows = np.searchsorted(ends, places, side="right")
            for window in np.unique(windows).tolist():
                spans = tuple((self.starts[n], self.starts[n + 1]) for n in self._shards(seed, epoch, window))
                first = ends[window - 1] if window else 0
                parts.append(_shuffled(spans, derive(seed, epoch, window))[places[windows == window] - first])
                is_last = window + 1 == len(ends)
                coming = self._shards(seed, epoch + is_last, 0 if is_last else window + 1)
        return np.concatenate(parts), coming

    def _shards(self, seed: int, epoch: int, window: int) -> list[int]:
        first, order = window * self.shards_per_window, permutation(seed, epoch, len(self.starts) - 1)
        return [int(shard) for shard in order[first : first + self.shards_per_window]]

    def _ends(self, seed: int, epoch: int) -> NDArray[np.int64]:
        """Rows of an epoch up to the end of each window."""
        totals = np.cumsum(np.diff(self.starts)[permutation(seed, epoch, len(self.starts) - 1)])
        ends = totals[self.shards_per_window - 1 :: self.shards_per_window]
        return np.append(ends, totals[-1]) if len(totals) % self.shards_per_window else ends


@lru_cache(maxsize=2)
def _shuffled(spans: tuple[tuple[int, int], ...], key: int) -> NDArray[np.int64]:
    """The rows of several spans in random order."""
    rows = np.concatenate([np.arange(first, last) for first, last in spans])
    np.random.Generator(np.random.Philox(key)).shuffle(rows)
    return rows


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
