"""Attention within the sequences of a packed batch, through transformers' attention interface."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface

from bertcli.data.batches import send
from bertcli.models.dropout import dropout as drop

# T tokens of the batch, N sequences, H hidden, A heads, D size per head; of a group: t tokens, n sequences, S the longest

PACKED = "packed"
# Score elements of a head that take as long as the calls that a group of its own would cost, forward and backward.
ELEMENTS_OF_A_GROUP = 4096
HALVES = (torch.bfloat16, torch.float16)
PASSES = 8  # over the score elements; a mask is one more
SHORT = 64  # a CPU makes a program for each new shape of a bfloat16 product: shorter sequences attend in float32


@dataclass(frozen=True)
class Group:
    """Neighbouring sequences that attend at once, each within itself."""

    tokens: int  # t
    shape: tuple[int, int]  # n, S
    places: Tensor | None = None  # [t] of each token among n * S; none where all sequences are as long as the longest
    mask: Tensor | None = None  # [n, 1, 1, S] -inf where a sequence has no token


@dataclass(frozen=True)
class Sequences:
    """Where the sequences of a batch lie in it; what an attention needs of that is made when the first layer asks."""

    lengths: tuple[int, ...]  # N, descending
    idle: int  # tokens behind them that are of none
    device: torch.device

    @cached_property
    def groups(self) -> list[Group]:
        """The batch cut into groups: little padding, and not too many calls."""
        parts: list[list[int]] = []
        wasted = 0
        for length in self.lengths:
            longest = parts[-1][0] if parts else 0
            wasted += longest**2 - length**2
            padding = wasted + len(parts[-1]) * longest**2 / PASSES if parts else 0.0
            if not parts or (length != longest and padding > ELEMENTS_OF_A_GROUP):
                parts.append([])
                wasted = 0
            parts[-1].append(length)
        return [self._group(part) for part in parts]

    def _group(self, lengths: list[int]) -> Group:
        tokens, shape = sum(lengths), (len(lengths), lengths[0])
        if lengths[0] == lengths[-1]:
            return Group(tokens, shape)
        there = torch.arange(lengths[0]) < torch.tensor(lengths)[:, None]  # [n, S]
        mask = torch.zeros(shape).masked_fill(~there, -torch.inf)[:, None, None]
        return Group(tokens, shape, send(there.flatten().nonzero()[:, 0], self.device), send(mask, self.device))

    @cached_property
    def boundaries(self) -> Tensor:
        """Where each sequence begins and the last ends, [N + 1] of int32; idle tokens are one sequence more."""
        ends = torch.tensor((0, *self.lengths, self.idle)).cumsum(0, dtype=torch.int32)
        return send(ends[: None if self.idle else -1], self.device)

    @property
    def longest(self) -> int:
        """Tokens of the longest sequence."""
        return max(self.lengths[0], self.idle)


def packed_attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: None, **kwargs: Any
) -> tuple[Tensor, None]:
    """Attend within each sequence of a packed batch.

    Args:
        module: the attention layer that asks.
        query: [1, A, T, D], as are `key` and `value`.
        key: see `query`.
        value: see `query`.
        attention_mask: none is needed: what is not there cannot be attended to.
        kwargs: the `sequences` of the batch; `dropout`; `scaling`.

    Returns:
        The context, [1, T, A, D], and no weights.
    """
    sequences: Sequences = kwargs["sequences"]
    dropout = kwargs.get("dropout", 0.0) if module.training else 0.0
    attend = _flash if query.is_cuda and query.dtype in HALVES else _in_groups
    q, k, v = (states[0].transpose(0, 1) for states in (query, key, value))  # [T, A, D]
    return attend(q, k, v, sequences, dropout, kwargs["scaling"]).unsqueeze(0), None


def _flash(query: Tensor, key: Tensor, value: Tensor, sequences: Sequences, dropout: float, scaling: float) -> Tensor:
    """The kernel of a GPU, told where the sequences lie; torch has no public function for it that drops weights out."""
    ends, longest = sequences.boundaries, sequences.longest
    context: Tensor = torch.ops.aten._flash_attention_forward(
        query, key, value, ends, ends, longest, longest, dropout, False, False, scale=scaling
    )[0]
    return context


def _in_groups(
    query: Tensor, key: Tensor, value: Tensor, sequences: Sequences, dropout: float, scaling: float
) -> Tensor:
    """Matrix products, those of sequences of about the same length in one."""
    sizes = [*(group.tokens for group in sequences.groups), sequences.idle]
    *parts, (idle, _, _) = zip(*(torch.split(states, sizes) for states in (query * scaling, key, value)), strict=True)
    contexts = []
    for group, tensors in zip(sequences.groups, parts, strict=True):
        q, k, v = (_spread(states, group) for states in tensors)  # [n, A, S, D]
        context = _attend(q, k, v, group.mask, dropout).transpose(1, 2).flatten(0, 1)
        contexts.append(context if group.places is None else _take(context, group.places))  # [t, A, D]
    return torch.cat([*contexts, idle])


def _spread(rows: Tensor, group: Group) -> Tensor:
    """[t, A, D] to [n, A, S, D]."""
    if group.places is not None:
        rows = rows.new_zeros(math.prod(group.shape), *rows.shape[1:]).index_copy(0, group.places, rows)
    return rows.view(*group.shape, *rows.shape[1:]).transpose(1, 2)


def _take(rows: Tensor, places: Tensor) -> Tensor:
    taken: Tensor = _TakeRows.apply(rows, places)  # type: ignore[no-untyped-call]
    return taken


class _TakeRows(torch.autograd.Function):
    """What index_select does for rows that are all different; its backward adds them up one by one, this one copies."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, places: Tensor) -> Tensor:
        ctx.save_for_backward(places)
        ctx.count = len(rows)
        return rows.index_select(0, places)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (places,) = ctx.saved_tensors
        return gradient.new_zeros(ctx.count, *gradient.shape[1:]).index_copy_(0, places, gradient), None


def _attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: float) -> Tensor:
    """[n, A, S, D] of what each sequence reads of itself; the query is scaled already."""
    is_short = query.shape[2] <= SHORT
    if not torch.is_grad_enabled() and dropout == 0 and (is_short or query.dtype == torch.float32):
        # torch's own, which on a CPU is the slower way to a gradient, to drop weights, and in bfloat16 over long sequences
        added = None if mask is None else mask.to(query.dtype)
        return nn.functional.scaled_dot_product_attention(query, key, value, added, scale=1.0)
    dtype = torch.float32 if query.device.type == "cpu" and is_short else query.dtype
    q, k, v = (states.to(dtype) for states in (query, key, value))
    scores = q @ k.transpose(-1, -2)  # [n, A, S, S]
    weights = torch.softmax(scores if mask is None else scores + mask.to(dtype), dim=-1)
    # Drops whole tokens to attend to, "which might seem a bit unusual, but is taken from the original Transformer paper"
    # (modeling.py).
    return (drop(weights, dropout, dropout > 0) @ v).to(query.dtype)


def _no_mask(*args: Any, **kwargs: Any) -> None:
    """A packed batch has no padding, so there is nothing to mask."""


AttentionInterface.register(PACKED, packed_attention)
AttentionMaskInterface.register(PACKED, _no_mask)
