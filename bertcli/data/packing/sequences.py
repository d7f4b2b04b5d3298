"""The boundaries of the sequences in a packed batch, and groups of them that attention pads together."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from bertcli.data.packing.batches import send

# N sequences of the batch; of a group: t tokens, n sequences, S the longest, A heads, D size per head

# A group of its own costs as much time in calls, forward and backward, as this many score elements of a head.
ELEMENTS_OF_A_GROUP = 4096
PASSES = 8  # over the score elements; a mask is one more
# A CPU compiles a program for each new shape of a bfloat16 product, which takes longer than the product: short sequences
# attend in float32; the length of longer ones is rounded up, and their number is cut into powers of two.
SHORT = 32
LENGTH_STEP = 32


@dataclass(frozen=True)
class Group:
    """Neighbouring sequences of similar length, padded to the longest."""

    tokens: int  # t
    shape: tuple[int, int]  # n, S
    cuts: list[int]  # how many of the n are multiplied at once
    lengths: Tensor  # [n], on the CPU
    device: torch.device
    is_causal: bool = False

    @cached_property
    def is_token(self) -> Tensor | None:
        """Which of [n, S] are tokens, on the CPU; None where all are."""
        return None if self.tokens == math.prod(self.shape) else torch.arange(self.shape[1]) < self.lengths[:, None]

    @cached_property
    def mask(self) -> Tensor | None:
        """The attention mask, [n, 1, 1, S], True for tokens; None where all are."""
        return None if self.is_token is None else send(self.is_token[:, None, None], self.device)

    def hide(self, scores: Tensor) -> Tensor:
        """Scores, [n, A, S, S], with -inf for padding, or in causal attention for what follows a token."""
        if self.is_causal:  # padding follows all tokens
            return scores.masked_fill(torch.ones(scores.shape[-2:], device=scores.device).triu(1).bool(), -torch.inf)
        return scores if self.mask is None else scores.masked_fill(~self.mask, -torch.inf)

    @cached_property
    def places(self) -> Tensor | None:
        """The index of each token in [n * S], [t]; None where there is no padding."""
        return None if self.is_token is None else send(self.is_token.flatten().nonzero()[:, 0], self.device)

    def padded(self, rows: Tensor) -> Tensor:
        """[t, A, D] to [n, A, S, D], padded with zeros."""
        if self.places is not None:
            rows = rows.new_zeros(math.prod(self.shape), *rows.shape[1:]).index_copy_(0, self.places, rows)
        return rows.view(*self.shape, *rows.shape[1:]).transpose(1, 2)

    def unpadded(self, states: Tensor) -> Tensor:
        """[n, A, S, D] to [t, A, D]."""
        rows = states.transpose(1, 2).flatten(0, 1)
        return rows if self.places is None else rows.index_select(0, self.places)


@dataclass(frozen=True)
class Sequences:
    """The lengths of the sequences in a packed batch; what attention needs is computed when the first layer asks."""

    lengths: tuple[int, ...]  # N, descending
    idle: int  # padding tokens at the end of the batch
    device: torch.device
    length_step: int = 1  # lengths above SHORT are rounded up to a multiple of it
    is_causal: bool = False  # whether a token attends only to those before it and to itself

    def __post_init__(self) -> None:
        """Check the order, on which the kernels rely: they would write beyond a group whose first sequence is not its longest."""
        if list(self.lengths) != sorted(self.lengths, reverse=True):
            raise ValueError("the sequences of a packed batch must be sorted, longest first")

    @cached_property
    def groups(self) -> list[Group]:
        """The sequences in groups: little padding, and few groups."""
        parts: list[list[int]] = []
        wasted = 0
        for length in self.lengths:
            padded, longest = self._padded(length), self._padded(parts[-1][0]) if parts else 0
            wasted += longest**2 - padded**2
            padding = wasted + len(parts[-1]) * longest**2 / PASSES if parts else 0.0
            if not parts or (padded != longest and padding > ELEMENTS_OF_A_GROUP):
                parts, wasted = [*parts, []], 0
            parts[-1].append(length)
        return [self._group(part) for part in parts]

    def groups_with_rows(self) -> Iterator[tuple[Group, slice]]:
        """The groups, each with its rows of the batch."""
        start = 0
        for group in self.groups:
            yield group, slice(start, start + group.tokens)
            start += group.tokens

    def _padded(self, length: int) -> int:
        return length if length <= SHORT else -(-length // self.length_step) * self.length_step

    def _group(self, lengths: list[int]) -> Group:
        tokens, count, longest = sum(lengths), len(lengths), self._padded(lengths[0])
        is_cut = self.length_step > 1 and longest > SHORT
        cuts = [1 << bit for bit in range(count.bit_length()) if count >> bit & 1] if is_cut else [count]
        return Group(tokens, (count, longest), cuts, torch.tensor(lengths), self.device, self.is_causal)

    @cached_property
    def lengths_on_cpu(self) -> Tensor:
        """The lengths, [N], for compiled loops."""
        return torch.tensor(self.lengths)

    @cached_property
    def boundaries(self) -> Tensor:
        """Where each sequence begins and the last ends, [N + 1] of int32; idle tokens count as one more sequence."""
        ends = torch.tensor((0, *self.lengths, self.idle)).cumsum(0, dtype=torch.int32)
        return send(ends[: None if self.idle else -1], self.device)

    @cached_property
    def backwards(self) -> Tensor:
        """The tokens with each sequence reversed, [T]; idle ones stay."""
        lengths = torch.tensor(self.lengths)
        ends, tokens = lengths.cumsum(0).repeat_interleave(lengths), torch.arange(int(lengths.sum()))
        reversed_ = 2 * ends - lengths.repeat_interleave(lengths) - 1 - tokens
        return send(torch.cat([reversed_, torch.arange(self.idle) + len(tokens)]), self.device)

    @property
    def longest(self) -> int:
        """Tokens of the longest sequence."""
        return max(self.lengths[0], self.idle)
