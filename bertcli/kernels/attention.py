"""Attention within the sequences of a packed batch on a CPU: matrix products, and compiled loops between them."""

from collections.abc import Iterator
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from bertcli.data.packing.sequences import SHORT, Group, Sequences
from bertcli.kernels.cpu import loops

# T tokens of the batch, A heads, D size per head; of a group: t tokens, P parts, n sequences, S the longest


def attend_in_tiles(states: Tensor, sequences: Sequences, scaling: float) -> Tensor:
    """Attend by a CPU's matrix units, a head at a time; [T, 3, A, D] to [T, A, D]."""
    context = _new_rows(states[:, 0], sequences)
    boundaries = sequences.boundaries[: len(sequences.lengths) + 1]
    loops("inference").attention(states.contiguous(), boundaries, scaling, context)
    return context


def attend_in_groups(states: tuple[Tensor, ...], sequences: Sequences, masks: Iterator[Any], scaling: float) -> Tensor:
    """Attend with dropout, and a gradient; [T, 3, A, D], or three of [T, 1, A, D], to [T, A, D]."""
    context: Tensor = _Attention.apply(sequences, masks, scaling, *states)  # type: ignore[no-untyped-call]
    return context


class _Attention(torch.autograd.Function):
    """Products of sequences of similar length are one; softmax and dropout between them pass once."""

    @staticmethod
    def forward(ctx: Any, sequences: Sequences, masks: Iterator[Any], scaling: float, *states: Tensor) -> Tensor:
        context, saved, ctx.masks = _new_rows(states[0][:, :1], sequences), [], []
        for group, rows in sequences.groups_with_rows():
            dtype = torch.float32 if group.shape[1] <= SHORT else context.dtype
            q, k, v = chain.from_iterable(_by_heads(each[rows], group, dtype) for each in states)  # [n, A, S, D]
            weights = _product(q, k.transpose(-1, -2), group)  # [n, A, S, S]
            mask = next(masks)
            read = torch.empty_like(weights) if mask[1] else weights
            loops("attention").softmax(weights.flatten(0, 1), group.lengths, read.flatten(0, 1), scaling, mask)
            loops("attention").by_tokens(_product(read, v, group)[None], group.lengths, context[rows])
            saved += [q, k, v, weights]
            ctx.masks.append(mask)
        ctx.save_for_backward(*saved)
        ctx.sequences, ctx.scaling, ctx.parts = sequences, scaling, len(states)
        return context[:, 0]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        gradient, saved = gradient[:, None].contiguous(), iter(ctx.saved_tensors)
        given = [_new_rows(gradient.expand(-1, 3 // ctx.parts, -1, -1), ctx.sequences) for _ in range(ctx.parts)]
        for (group, rows), mask in zip(ctx.sequences.groups_with_rows(), ctx.masks, strict=True):
            q, k, v, weights = (next(saved) for _ in range(4))
            (of_context,) = _by_heads(gradient[rows], group, v.dtype)
            of_scores = _product(of_context, v.transpose(-1, -2), group)
            read = torch.empty_like(weights) if mask[1] else weights
            gradients, shares, again = (each.flatten(0, 1) for each in (of_scores, weights, read))
            loops("attention").softmax_backward(gradients, shares, group.lengths, again, ctx.scaling, mask)
            of_states = q.new_empty(3, *q.shape)
            _product(of_scores, k, group, of_states[0])
            _product(of_scores.transpose(-1, -2), q, group, of_states[1])
            _product(read.transpose(-1, -2), of_context, group, of_states[2])
            for whole, parts in zip(given, of_states.chunk(ctx.parts), strict=True):
                loops("attention").by_tokens(parts, group.lengths, whole[rows])
        return None, None, None, *given


def _by_heads(rows: Tensor, group: Group, dtype: torch.dtype) -> Tensor:
    """[t, P, A, D] to [P, n, A, S, D], as products read them, padded with zeros."""
    (count, longest), (parts, heads, size) = group.shape, rows.shape[1:]
    states = rows.new_empty(parts, count, heads, longest, size, dtype=dtype)
    loops("attention").by_heads(rows, group.lengths, states)
    return states


def _new_rows(like: Tensor, sequences: Sequences) -> Tensor:
    """[T, ...], zeros for idle tokens, without values yet for the others."""
    rows = torch.empty_like(like, memory_format=torch.contiguous_format)
    rows[len(rows) - sequences.idle :] = 0
    return rows


def _product(left: Tensor, right: Tensor, group: Group, product: Tensor | None = None) -> Tensor:
    """The products of n times A matrices."""
    if product is None:
        product = left.new_empty(*left.shape[:-1], right.shape[-1])
    for a, b, out in zip(*(torch.split(each, group.cuts) for each in (left, right, product)), strict=True):
        torch.bmm(a.flatten(0, 1), b.flatten(0, 1), out=out.flatten(0, 1))
    return product
