"""Attention within the sequences of a packed batch, through transformers' attention interface."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel

from bertcli.data.packing.batches import send
from bertcli.kernels.cpu import fits_many, fits_tiles, inference_kernels, kernels
from bertcli.models.dropout import next_mask

# T tokens of the batch, N sequences, H hidden, A heads, D size per head; of a group: t tokens, n sequences, S the longest

PACKED = "packed"
# Score elements of a head that take as long as the calls that a group of its own would cost, forward and backward.
ELEMENTS_OF_A_GROUP = 4096
HALVES = (torch.bfloat16, torch.float16)
PASSES = 8  # over the score elements; a mask is one more
# A CPU makes a program for each new shape of a bfloat16 product, which takes longer than the product: short sequences
# attend in float32; of longer ones the length is rounded up, and their number is cut into powers of two.
SHORT = 32
LENGTH_STEP = 32
LONG = 64  # what torch's own attention in bfloat16 is slower than kernels beyond


@dataclass(frozen=True)
class Group:
    """Neighbouring sequences that attend at once, each within itself."""

    tokens: int  # t
    shape: tuple[int, int]  # n, S
    cuts: list[int]  # how many of the n are multiplied at once
    lengths: Tensor  # [n], on the CPU
    device: torch.device

    @cached_property
    def there(self) -> Tensor | None:
        """Which of [n, S] are tokens, on the CPU; none where all are."""
        count, longest = self.shape
        return None if self.tokens == count * longest else torch.arange(longest) < self.lengths[:, None]

    @cached_property
    def mask(self) -> Tensor | None:
        """The same as torch's attention takes it, [n, 1, 1, S]."""
        return None if self.there is None else send(self.there[:, None, None], self.device)

    @cached_property
    def places(self) -> Tensor | None:
        """The place of each token among n * S, [t]; none where each is its own."""
        return None if self.there is None else send(self.there.flatten().nonzero()[:, 0], self.device)


@dataclass(frozen=True)
class Sequences:
    """Where the sequences of a batch lie in it; what an attention needs of that is made when the first layer asks."""

    lengths: tuple[int, ...]  # N, descending
    idle: int  # tokens behind them that are of none
    device: torch.device
    length_step: int = 1  # what the lengths of long ones are rounded up to

    @cached_property
    def groups(self) -> list[Group]:
        """The batch cut into groups: little padding, and not too many calls."""
        parts: list[list[int]] = []
        wasted = 0
        for length in self.lengths:
            padded = self._padded(length)
            longest = self._padded(parts[-1][0]) if parts else 0
            wasted += longest**2 - padded**2
            padding = wasted + len(parts[-1]) * longest**2 / PASSES if parts else 0.0
            if not parts or (padded != longest and padding > ELEMENTS_OF_A_GROUP):
                parts.append([])
                wasted = 0
            parts[-1].append(length)
        return [self._group(part) for part in parts]

    def _padded(self, length: int) -> int:
        return length if length <= SHORT else -(-length // self.length_step) * self.length_step

    def _group(self, lengths: list[int]) -> Group:
        tokens, count, longest = sum(lengths), len(lengths), self._padded(lengths[0])
        is_program = self.length_step > 1 and longest > SHORT
        cuts = [1 << bit for bit in range(count.bit_length()) if count >> bit & 1] if is_program else [count]
        return Group(tokens, (count, longest), cuts, torch.tensor(lengths), self.device)

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
    dropout = kwargs.get("dropout", 0.0) if module.training else 0.0
    states = (each.squeeze(0).transpose(0, 1)[:, None] for each in (query, key, value))
    return attend(kwargs["sequences"], dropout, kwargs["scaling"], *states).unsqueeze(0), None


def attend(sequences: Sequences, dropout: float, scaling: float, *states: Tensor) -> Tensor:
    """Attend within each sequence of a packed batch, in the way that is fastest where it lies.

    Args:
        sequences: of the batch.
        dropout: the share of the weights to drop.
        scaling: what the scores are multiplied by.
        states: query, key and value, [T, 3, A, D], or three of [T, 1, A, D].

    Returns:
        The context, [T, A, D].
    """
    if fits_tiles(states[0]) and not (dropout or torch.is_grad_enabled()):
        return _in_tiles(torch.cat(states, 1) if len(states) > 1 else states[0], sequences, scaling)
    if _suits_kernels(states[0], sequences):
        context: Tensor = _Attention.apply(sequences, dropout, scaling, *states)  # type: ignore[no-untyped-call]
        return context
    q, k, v = chain.from_iterable(each.unbind(1) for each in states)  # [T, A, D]
    by_torch = _flash if q.is_cuda and q.dtype in HALVES else _in_groups
    return by_torch(q, k, v, sequences, dropout, scaling)


def _suits_kernels(states: Tensor, sequences: Sequences) -> bool:
    """Whether torch's own is the slower way: on a CPU to a gradient or to drop weights, and in bfloat16 over long sequences."""
    is_long = states.dtype == torch.bfloat16 and sequences.longest > LONG
    return fits_many(states[:, 0, 0]) and (torch.is_grad_enabled() or is_long)


def _in_tiles(states: Tensor, sequences: Sequences, scaling: float) -> Tensor:
    """By a CPU's matrix units, a head at a time; [T, 3, A, D] to [T, A, D]."""
    context = _no_rows(states[:, 0], sequences)
    boundaries = sequences.boundaries[: len(sequences.lengths) + 1]
    inference_kernels().attention(states.contiguous(), boundaries, scaling, context)
    return context


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
    """Torch's own attention, that of sequences of about the same length at once."""
    found = []
    for group, rows in with_rows(sequences):
        q, k, v = (spread(each[rows], group) for each in (query, key, value))  # [n, A, S, D]
        context = nn.functional.scaled_dot_product_attention(q, k, v, group.mask, dropout, scale=scaling)
        found.append(_gathered(context, group))
    found.append(query.new_zeros(sequences.idle, *query.shape[1:]))
    return torch.cat(found)


class _Attention(torch.autograd.Function):
    """Matrix products, those of sequences of about the same length in one, and what lies between them, by kernels."""

    @staticmethod
    def forward(ctx: Any, sequences: Sequences, dropout: float, scaling: float, *states: Tensor) -> Tensor:
        context, saved, ctx.masks = _no_rows(states[0][:, :1], sequences), [], []
        for group, rows in with_rows(sequences):
            dtype = torch.float32 if group.shape[1] <= SHORT else context.dtype
            q, k, v = chain.from_iterable(_by_heads(each[rows], group, dtype) for each in states)  # [n, A, S, D]
            weights = _product(q, k.transpose(-1, -2), group)  # [n, A, S, S]
            # Drops whole tokens to attend to, "which might seem a bit unusual, but is taken from the original Transformer
            # paper" (modeling.py).
            mask = next_mask(dropout)
            read = torch.empty_like(weights) if mask[1] else weights
            kernels().softmax(weights.flatten(0, 1), group.lengths, read.flatten(0, 1), scaling, mask)
            kernels().by_tokens(_product(read, v, group)[None], group.lengths, context[rows])
            saved += [q, k, v, weights]
            ctx.masks.append(mask)
        ctx.save_for_backward(*saved)
        ctx.sequences, ctx.scaling, ctx.parts = sequences, scaling, len(states)
        return context[:, 0]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        gradient, saved = gradient[:, None].contiguous(), iter(ctx.saved_tensors)
        given = [_no_rows(gradient.expand(-1, 3 // ctx.parts, -1, -1), ctx.sequences) for _ in range(ctx.parts)]
        for (group, rows), mask in zip(with_rows(ctx.sequences), ctx.masks, strict=True):
            q, k, v, weights = (next(saved) for _ in range(4))
            (of_context,) = _by_heads(gradient[rows], group, v.dtype)
            of_scores = _product(of_context, v.transpose(-1, -2), group)
            read = torch.empty_like(weights) if mask[1] else weights
            kernels().softmax_backward(
                of_scores.flatten(0, 1), weights.flatten(0, 1), group.lengths, read.flatten(0, 1), ctx.scaling, mask
            )
            of_states = q.new_empty(3, *q.shape)
            _product(of_scores, k, group, of_states[0])
            _product(of_scores.transpose(-1, -2), q, group, of_states[1])
            _product(read.transpose(-1, -2), of_context, group, of_states[2])
            for whole, parts in zip(given, of_states.chunk(ctx.parts), strict=True):
                kernels().by_tokens(parts, group.lengths, whole[rows])
        return None, None, None, *given


def with_rows(sequences: Sequences) -> Iterator[tuple[Group, slice]]:
    """The groups, and which rows of the batch are theirs."""
    start = 0
    for group in sequences.groups:
        yield group, slice(start, start + group.tokens)
        start += group.tokens


def spread(rows: Tensor, group: Group) -> Tensor:
    """[t, A, D] to [n, A, S, D]; zeros where a sequence has no token."""
    if group.places is not None:
        rows = rows.new_zeros(math.prod(group.shape), *rows.shape[1:]).index_copy_(0, group.places, rows)
    return rows.view(*group.shape, *rows.shape[1:]).transpose(1, 2)


def _by_heads(rows: Tensor, group: Group, dtype: torch.dtype) -> Tensor:
    """[t, P, A, D] to [P, n, A, S, D], as products read them; zeros where a sequence has no token."""
    (count, longest), (parts, heads, size) = group.shape, rows.shape[1:]
    states = rows.new_empty(parts, count, heads, longest, size, dtype=dtype)
    kernels().by_heads(rows, group.lengths, states)
    return states


def _no_rows(like: Tensor, sequences: Sequences) -> Tensor:
    """[T, ...], zeros for idle tokens, and nothing yet for the others."""
    rows = torch.empty_like(like, memory_format=torch.contiguous_format)
    rows[len(rows) - sequences.idle :] = 0
    return rows


def _gathered(states: Tensor, group: Group) -> Tensor:
    """[n, A, S, D] to [t, A, D]."""
    rows = states.transpose(1, 2).flatten(0, 1)
    return rows if group.places is None else rows.index_select(0, group.places)


def _product(left: Tensor, right: Tensor, group: Group, product: Tensor | None = None) -> Tensor:
    """The products of n times A matrices."""
    if product is None:
        product = left.new_empty(*left.shape[:-1], right.shape[-1])
    for a, b, out in zip(*(torch.split(each, group.cuts) for each in (left, right, product)), strict=True):
        torch.bmm(a.flatten(0, 1), b.flatten(0, 1), out=out.flatten(0, 1))
    return product


def is_packed(model: PreTrainedModel) -> bool:
    """Whether a model runs on real tokens only."""
    return bool(model.config._attn_implementation == PACKED)


def _no_mask(*args: Any, **kwargs: Any) -> None:
    """A packed batch has no padding, so there is nothing to mask."""


AttentionInterface.register(PACKED, packed_attention)
AttentionMaskInterface.register(PACKED, _no_mask)
