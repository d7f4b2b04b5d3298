"""Packed batches: the tokens of the sequences end to end, with the length of each sequence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertcli.data.packing.keyed import rows_of_step

# T tokens of the batch, N sequences


@dataclass(frozen=True)
class PackedBatch:
    """Sequences end to end, longest first; there is no padding."""

    input_ids: Tensor  # [T]
    token_type_ids: Tensor  # [T]
    position_ids: Tensor  # [T] counted from the start of each sequence
    lengths: tuple[int, ...]  # N, descending
    rows: NDArray[np.int64]  # [outputs of the head] the row of the data of each, mostly one per sequence, [N]
    labels: dict[str, Tensor] = field(default_factory=dict)
    counts: Mapping[str, float] = field(default_factory=dict)  # what each summed loss is divided by

    @property
    def first_tokens(self) -> Tensor:
        """Where each sequence starts, [N]: the positions of [CLS]."""
        starts = np.cumsum((0, *self.lengths[:-1]))
        return send(torch.from_numpy(starts), self.input_ids.device)

    def to(self, device: torch.device) -> PackedBatch:
        """The same batch on another device."""
        labels = {name: send(value, device) for name, value in self.labels.items()}
        ids, types, positions = (send(v, device) for v in (self.input_ids, self.token_type_ids, self.position_ids))
        return replace(self, input_ids=ids, token_type_ids=types, position_ids=positions, labels=labels)


def send(values: Tensor, device: torch.device) -> Tensor:
    """Copy to a device; to a GPU from pinned memory, so that the CPU does not wait for the GPU."""
    return (values.pin_memory() if device.type == "cuda" else values).to(device, non_blocking=True)


class Packable(Protocol):
    """Rows that can be packed: pre-training instances, or the features of a task."""

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens a row, [rows]."""

    def pack(self, rows: NDArray[np.int64], key: int) -> PackedBatch:
        """Pack the chosen rows; `key` is the step, for what is drawn in each."""


def pack(
    input_ids: NDArray[np.int64], token_type_ids: NDArray[np.int64], lengths: NDArray[np.int64], rows: NDArray[np.int64]
) -> PackedBatch:
    """Make a batch of flat columns, [T], and the lengths of the sequences, [N]."""
    starts = np.repeat(np.cumsum(lengths) - lengths, lengths)
    return PackedBatch(
        torch.from_numpy(input_ids),
        torch.from_numpy(token_type_ids),
        torch.from_numpy(np.arange(len(input_ids)) - starts),
        tuple(int(length) for length in lengths),
        rows,
    )


@dataclass(frozen=True)
class TrainingBatches:
    """The batches of a training run: for each step, this process's share of the global batch, in micro-batches."""

    examples: Packable
    batch_size: int
    seed: int
    micro_batch_tokens: int
    rank: int = 0
    world_size: int = 1

    def of_step(self, step: int) -> list[PackedBatch]:
        """The share of this process, in micro-batches of at most `micro_batch_tokens`, longest rows first."""
        rows = rows_of_step(self.seed, step, self.batch_size, len(self.examples.lengths))
        mine = longest_first(rows, self.examples.lengths)[self.rank :: self.world_size]
        return [self.examples.pack(part, step) for part in split(mine, self.examples.lengths, self.micro_batch_tokens)]


def evaluation_batches(examples: Packable, micro_batch_tokens: int) -> Iterator[PackedBatch]:
    """All rows once, longest first."""
    rows = longest_first(np.arange(len(examples.lengths)), examples.lengths)
    for part in split(rows, examples.lengths, micro_batch_tokens):
        yield examples.pack(part, 0)


def longest_first(rows: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sort rows by length, longest first; equal lengths keep their order."""
    return rows[np.argsort(-lengths[rows], kind="stable")]


def split(rows: NDArray[np.int64], lengths: NDArray[np.int64], tokens: int) -> list[NDArray[np.int64]]:
    """Split rows into parts of at most `tokens` tokens; a longer row is a part of its own."""
    parts: list[list[int]] = []
    room = 0
    for row in rows:
        if room < lengths[row] or not parts:
            parts.append([])
            room = max(tokens, int(lengths[row]))
        parts[-1].append(int(row))
        room -= int(lengths[row])
    return [np.array(part, dtype=np.int64) for part in parts]
