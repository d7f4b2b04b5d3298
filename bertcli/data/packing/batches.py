"""Packed batches: the tokens of the sequences end to end, their lengths beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from bertcli.data.packing.ragged import Ints

# T tokens of the batch, N sequences

Labels = dict[str, Tensor]
ROWS_SORTED = 1 << 20  # of an evaluation, at a time


@dataclass(frozen=True)
class PackedBatch:
    """Sequences end to end, longest first; there is no padding."""

    input_ids: Tensor  # [T]
    token_type_ids: Tensor  # [T]
    position_ids: Tensor  # [T] counted from the start of each sequence
    lengths: tuple[int, ...]  # N, descending
    rows: Ints  # [outputs of the head] row of the data each belongs to; mostly one a sequence, [N]
    labels: Labels = field(default_factory=dict)
    counts: Mapping[str, float] = field(default_factory=dict)  # what each summed loss is divided by
    sequence_rows: Ints | None = None  # [N] row of the data of each sequence, where these are not `rows`

    @property
    def first_tokens(self) -> Tensor:
        """Where each sequence starts, [N]: the places of [CLS]."""
        return send(torch.from_numpy(np.cumsum((0, *self.lengths[:-1]))), self.input_ids.device)

    @property
    def last_tokens(self) -> Tensor:
        """Where each sequence ends, [N]: the places of its last [SEP]."""
        return send(torch.from_numpy(np.cumsum(self.lengths) - 1), self.input_ids.device)

    def to(self, device: torch.device) -> PackedBatch:
        """The same batch on another device."""
        labels = {name: send(value, device) for name, value in self.labels.items()}
        ids, types, positions = (send(v, device) for v in (self.input_ids, self.token_type_ids, self.position_ids))
        return replace(self, input_ids=ids, token_type_ids=types, position_ids=positions, labels=labels)


def send(values: Tensor, device: torch.device) -> Tensor:
    """Copy to a device; to a GPU from pinned memory, so that the CPU does not wait for it."""
    return (values.pin_memory() if device.type == "cuda" else values).to(device, non_blocking=True)


class Lengths(Protocol):
    """Tokens a row: an array, or what reads them when they are asked for."""

    def __len__(self) -> int: ...
    def __getitem__(self, rows: Ints, /) -> Ints: ...


class Packable(Protocol):
    """Rows that can be packed: pre-training instances, or the features of a task."""

    @property
    def lengths(self) -> Lengths:
        """Tokens a row, [rows]."""

    def rows_of_step(self, seed: int, step: int, batch_size: int) -> Ints:
        """The rows of the batch of one step, a function of these alone."""

    def pack(self, rows: Ints, key: int) -> PackedBatch:
        """Pack the chosen rows; `key` is of the step, for what is drawn anew."""


def pack(
    ids: Ints, types: Ints | None, lengths: Ints, rows: Ints, labels: Labels | None = None, count: float | None = None
) -> PackedBatch:
    """Make a batch of flat columns, [T], types 0 unless given, and lengths, [N]; `count` divides the summed loss."""
    types = np.zeros_like(ids) if types is None else types
    positions = np.arange(len(ids)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    flat = (torch.from_numpy(ids), torch.from_numpy(types), torch.from_numpy(positions))
    counts = {} if count is None else {"loss": count}
    return PackedBatch(*flat, tuple(map(int, lengths)), rows, labels or {}, counts, rows)


@dataclass(frozen=True)
class TrainingBatches:
    """The batches of a training run: step -> this process's share of the global batch, in micro-batches."""

    examples: Packable
    batch_size: int
    seed: int
    micro_batch_tokens: int
    rank: int = 0
    world_size: int = 1

    def of_step(self, step: int) -> list[PackedBatch]:
        """The share of this process, in passes of at most `micro_batch_tokens`; the longest rows come first."""
        rows = self.examples.rows_of_step(self.seed, step, self.batch_size)
        mine = longest_first(rows, self.examples.lengths)[self.rank :: self.world_size]
        return [self.examples.pack(part, step) for part in split(mine, self.examples.lengths, self.micro_batch_tokens)]


class Ahead:
    """Makes the batches of a step in a thread, while a device computes the step before."""

    def __init__(self, steps: int) -> None:
        self.steps, self.thread = steps, ThreadPoolExecutor(1)
        self._coming: dict[int, Future[list[PackedBatch]]] = {}

    def begin(self, batches: TrainingBatches, step: int) -> None:
        """Start making the batches of a step, unless it is the step after the last or they are being made."""
        if step < self.steps and step not in self._coming:
            self._coming[step] = self.thread.submit(batches.of_step, step)

    def take(self, batches: TrainingBatches, step: int) -> list[PackedBatch]:
        """Wait for the batches of a step."""
        self.begin(batches, step)
        return self._coming.pop(step).result()


def evaluation_batches(examples: Packable, micro_batch_tokens: int) -> Iterator[PackedBatch]:
    """All rows once, longest first; very many rows a part at a time, so that their lengths fit into memory."""
    for first in range(0, count := len(examples.lengths), ROWS_SORTED):
        rows = longest_first(np.arange(first, min(first + ROWS_SORTED, count)), examples.lengths)
        for part in split(rows, examples.lengths, micro_batch_tokens):
            yield examples.pack(part, 0)


def longest_first(rows: Ints, lengths: Lengths) -> Ints:
    """Sort rows by length, so that equal lengths stand together."""
    return rows[np.argsort(-lengths[rows], kind="stable")]


def split(rows: Ints, lengths: Lengths, tokens: int) -> list[Ints]:
    """Cut rows into parts of at most `tokens` tokens; a longer row is a part of its own."""
    parts: list[list[int]] = []
    room = 0
    for row, length in zip(rows.tolist(), lengths[rows].tolist(), strict=True):
        if room < length or not parts:
            parts.append([])
            room = max(tokens, length)
        parts[-1].append(row)
        room -= length
    return [np.array(part, dtype=np.int64) for part in parts]
