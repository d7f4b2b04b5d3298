"""Which tokens of XLNet's sequences see which, in groups of similar length."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from bertcli.data.packing.sequences import Group, Sequences

# T tokens of the batch, N sequences, P predictions;
# of a group: n sequences, S the longest, Q its queries a sequence, M tokens of memory, K keys: M + S


@dataclass(frozen=True)
class Predictions:
    """The tokens of a batch that are predicted, and their order: a token attends only to tokens of lower rank."""

    positions: Tensor  # [P] in the batch, ascending
    places: Tensor  # [P] within their sequences
    counts: tuple[int, ...]  # N, of each sequence
    own_ranks: Tensor  # [T]
    ranks: Tensor  # [T]


@dataclass(frozen=True)
class Queries:
    """Tokens of a group that attend: all of its tokens, or those that are predicted."""

    group: Group  # [n, Q]
    rows: slice  # of the tokens, or of the predictions
    places: Tensor  # [n, Q] among the keys
    hidden: Tensor  # [n, Q, K] which keys they do not see
    differs: Tensor  # [n, Q, K] whether a key is of another token type


@dataclass(frozen=True)
class Keys:
    """Tokens of a group that are attended to, after those of the memory, and what attends to them."""

    group: Group  # [n, S]
    rows: slice
    sequences: slice
    tokens: Queries
    predictions: Queries | None


def groups_of(
    types: Tensor | None, sequences: Sequences, predictions: Predictions | None, memory: int
) -> Iterator[Keys]:
    """The sequences in groups of similar length, with what the queries of each see."""
    first = start = 0  # of a group's sequences, and of its predictions
    for group, rows in sequences.groups_with_rows():
        of_group = slice(first, first := first + group.shape[0])
        square = (*group.shape, group.shape[1])  # [n, S, S]
        nothing = torch.zeros(square, dtype=torch.bool, device=group.device)
        differs = pad(nothing, (memory, 0)) if types is None else _differs(column(types, group, rows), memory)
        hidden = nothing if group.mask is None else ~group.mask[:, 0].expand(square)
        turns = (memory + torch.arange(group.shape[1], device=group.device)).expand(group.shape)
        if predictions is None:
            yield Keys(group, rows, of_group, Queries(group, rows, turns, _behind(hidden, memory), differs), None)
            continue
        own, ranks = (column(each, group, rows) for each in (predictions.own_ranks, predictions.ranks))
        later = (own[:, :, None] <= ranks[:, None]) | hidden
        is_self = torch.eye(group.shape[1], dtype=torch.bool, device=later.device)
        tokens = Queries(group, rows, turns, _behind(later & ~is_self, memory), differs)
        if not len(predictions.positions):
            yield Keys(group, rows, of_group, tokens, None)
            continue
        counts = predictions.counts[of_group]
        asking = slice(start, start := start + sum(counts))
        shape = len(counts), max(1, *counts)
        predicted = Group(sum(counts), shape, [len(counts)], torch.tensor(counts), later.device)
        places = column(predictions.places, predicted, asking)  # [n, Q]
        seen = (_behind(later, memory), differs)
        chosen = (each.gather(1, places[..., None].expand(-1, -1, each.shape[2])) for each in seen)
        yield Keys(group, rows, of_group, tokens, Queries(predicted, asking, memory + places, *chosen))


def column(values: Tensor, group: Group, rows: slice) -> Tensor:
    """Values of a group's tokens, a row a sequence, [n, S]."""
    return group.padded(values[rows][:, None, None])[:, 0, :, 0]


def _behind(hidden: Tensor, memory: int) -> Tensor:
    """What is hidden, [n, S, S], behind a memory that all see, [n, S, K]."""
    return pad(hidden, (memory, 0))


def _differs(types: Tensor, memory: int) -> Tensor:
    """Where two tokens are of different types, [n, S, K]."""
    return types[:, :, None] != pad(types, (memory, 0))[:, None]
