"""Rows of different lengths in flat arrays, as Arrow lays them out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertcli.data.packing.keyed import rows_of_step

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Ragged:
    """A column of integer rows: chunks of values end to end, each with the offsets of its rows."""

    values: list[NDArray[Any]]
    offsets: list[NDArray[Any]]  # one more than the rows of the chunk
    starts: Ints  # first row of each chunk, and the number of all rows

    @classmethod
    def from_lists(cls, rows: Sequence[Sequence[int]]) -> Ragged:
        """Flatten lists of numbers."""
        offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
        flat = np.fromiter((value for row in rows for value in row), dtype=np.int64, count=int(offsets[-1]))
        return cls([flat], [offsets], np.array([0, len(rows)]))

    @classmethod
    def from_arrow(cls, column: Any) -> Ragged:
        """View a chunked list column without copying it; memory-mapped values stay on disk until they are read."""
        chunks = [chunk for chunk in column.chunks if len(chunk)]
        values = [chunk.values.to_numpy(zero_copy_only=True) for chunk in chunks]
        offsets = [chunk.offsets.to_numpy(zero_copy_only=True) for chunk in chunks]
        return cls(values, offsets, np.cumsum([0, *map(len, chunks)]))

    @classmethod
    def joined(cls, parts: Sequence[Ragged]) -> Ragged:
        """The rows of several columns, one after another; nothing is copied."""
        values = [chunk for part in parts for chunk in part.values]
        offsets = [chunk for part in parts for chunk in part.offsets]
        return cls(values, offsets, np.cumsum([0, *(len(chunk) - 1 for chunk in offsets)]))

    def __len__(self) -> int:
        return int(self.starts[-1])

    @property
    def lengths(self) -> Ints:
        """Values a row, [rows]."""
        return np.concatenate([np.diff(offsets) for offsets in self.offsets] or [np.zeros(0)]).astype(np.int64)

    def lengths_of(self, rows: Ints) -> Ints:
        """Values of each of the chosen rows, [rows]."""
        chunks = np.searchsorted(self.starts, rows, side="right") - 1
        pairs = zip(chunks, rows - self.starts[chunks], strict=True)
        spans = (self.offsets[chunk][row : row + 2] for chunk, row in pairs)
        return np.array([int(end) - int(start) for start, end in spans], dtype=np.int64)

    def take(self, rows: Ints) -> tuple[Ints, Ints]:
        """The values of the chosen rows end to end, and how many each has."""
        chunks = np.searchsorted(self.starts, rows, side="right") - 1
        parts = []
        for chunk, row in zip(chunks, rows - self.starts[chunks], strict=True):
            start, end = self.offsets[chunk][row], self.offsets[chunk][row + 1]
            parts.append(self.values[chunk][start:end])
        lengths = np.array([len(part) for part in parts], dtype=np.int64)
        return np.concatenate(parts or [np.zeros(0)]).astype(np.int64), lengths


def places_in_batch(places: Ragged, rows: Ints, lengths: Ints) -> tuple[Ints, Ints]:
    """Places within the chosen rows as places in the batch of them, and how many each row has."""
    within, counts = places.take(rows)
    return within + np.repeat(np.cumsum(lengths) - lengths, counts), counts


def types_with_last(lengths: Ints, last_type: int, types: Ints | None = None) -> Ints:
    """The types of the tokens of rows, [T], or zeros, with another one for the last token of each row."""
    types = np.zeros(lengths.sum(), np.int64) if types is None else types
    if last_type:
        types[np.cumsum(lengths) - 1] = last_type
    return types


class TokenRows:
    """Rows of tokens that can be packed; their lengths are counted once."""

    input_ids: Ragged

    @cached_property
    def lengths(self) -> Ints:
        """Tokens a row, [rows]."""
        return self.input_ids.lengths

    def rows_of_step(self, seed: int, step: int, batch_size: int) -> Ints:
        """The rows of the batch of one step."""
        return rows_of_step(seed, step, batch_size, len(self.lengths))
