"""Disentangled attention within the sequences of a packed batch: by content, and by how far tokens are apart (DeBERTa)."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn.functional import embedding, pad
from transformers.models.deberta_v2.modeling_deberta_v2 import make_log_bucket_position

from bertcli.data.packing.batches import send
from bertcli.data.packing.sequences import SHORT, Sequences
from bertcli.kernels import faster
from bertcli.models.dropout import Mask, drop, next_mask, of_heads

# T tokens of the batch, H hidden, A heads, D size per head, P relative positions
# Of a group: n sequences, S the longest; W = 2S, one more than the distances between its tokens, as products of an even
# size are faster; of a block: B tokens

BLOCK = 64  # tokens whose products with all distances that they need are one


class Relative:
    """The relative positions of a batch as a layer's heads see them: as keys of queries, and as queries of keys."""

    def __init__(self, attention: Any, table: Tensor, longest: int) -> None:
        self.kind = len(table) // 2, getattr(attention, "position_buckets", -1), attention.max_relative_positions
        needed = _rows(longest, *self.kind)
        self.first, last = int(needed.min()), int(needed.max())  # the others are of distances that no sequence has
        names = torch.arange(self.first, last + 1, dtype=torch.int32, device=table.device)
        mask = next_mask(attention.pos_dropout.p if attention.training else 0.0, len(names))
        table = table[self.first : last + 1]
        table = drop(table, (*mask[:3], names)) if mask[1] else table
        self.heads = attention.num_attention_heads
        self.keys, self.queries = (each and each(table) for each in attention.project_positions())  # [P, A * D] each

    def of_distances(self, length: int, scaling: float, dtype: torch.dtype) -> tuple[Tensor | None, Tensor | None]:
        """Keys by how far they are behind a query, and queries, scaled, by how far they are behind a key, [A, W, D] each.

        Row S - 1 is of no distance, the rows before it of tokens that come before.
        """
        found: list[Tensor | None] = []
        rows = _rows(length, *self.kind) - self.first
        for vectors, order, factor in ((self.keys, rows.flip(0), 1.0), (self.queries, rows, scaling)):
            chosen = torch.cat([order, order[-1:]])
            found.append(None if vectors is None else self._by_head(vectors, chosen).to(dtype) * factor)
        return found[0], found[1]

    def _by_head(self, vectors: Tensor, rows: Tensor) -> Tensor:
        """Some rows of vectors, [A, W, D]. Far distances share one: an embedding sums its gradient in a fixed order, on a GPU too."""
        return embedding(send(rows, vectors.device), vectors).view(len(rows), self.heads, -1).transpose(0, 1)


@lru_cache(maxsize=64)
def _rows(length: int, span: int, buckets: int, furthest: int) -> Tensor:
    """The row of a table of relative positions for each distance of a query from a key, 1 - S ... S - 1, [W]."""
    distances = torch.arange(1 - length, length)
    if buckets > 0:
        distances = make_log_bucket_position(distances, buckets, furthest).long()
    return (distances + span).clamp(0, 2 * span - 1)


def attend(
    attention: Any, sequences: Sequences, mask: Mask, scaling: float, table: Tensor | None, *states: Tensor
) -> Tensor:
    """The context, [T, H], of queries, keys and values, [T, A, D] each, and embeddings of relative positions, [2k, H].

    `attention` is the module whose projections of these and dropout are used.
    """
    relative = None if table is None else Relative(attention, table, max(group.shape[1] for group in sequences.groups))
    found = []
    for group, rows in sequences.groups_with_rows():
        dtype = torch.float32 if group.shape[1] <= SHORT else states[0].dtype
        by_distance = relative.of_distances(group.shape[1], scaling, dtype) if relative else (None, None)
        padded = [group.padded(each[rows]).to(dtype) for each in (states[0] * scaling, *states[1:])]
        contexts, first = [], rows.start
        cuts = group.cuts if group.device.type == "cpu" else [group.shape[0]]
        for lengths, *part in zip(*(torch.split(each, cuts) for each in (group.lengths, *padded)), strict=True):
            last = first + int(lengths.sum())
            given = (lengths, (*mask[:3], mask[3][first:last]), *part, *by_distance)
            contexts.append(_Attention.apply(*given))  # type: ignore[no-untyped-call]
            first = last
        found.append(group.unpadded(torch.cat(contexts)).to(states[0].dtype))
    return pad(torch.cat(found).flatten(1), (0, 0, 0, sequences.idle))


class _Attention(torch.autograd.Function):
    """The attention of a group, or a part of it, by scaled queries, keys, values, [n, A, S, D], and vectors of `of_distances`.

    `lengths` has the tokens of each sequence, [n], and `mask` is that of these tokens, for the weights.
    """

    @staticmethod
    def forward(ctx: Any, lengths: Tensor, mask: Mask, *given: Any) -> Tensor:
        query, key, value, keys, queries = given
        scores = query @ key.transpose(-1, -2)  # [n, A, S, S]
        for states, vectors, of_states in ((query, keys, scores), (key, queries, scores.transpose(-1, -2))):
            for block, products in _products(states, vectors):
                of_states[:, :, block] += _by_distance(products, len(states))
        weights, dropped = weights_of(scores, lengths, mask)
        ctx.save_for_backward(*given, weights)
        ctx.lengths, ctx.mask = lengths, mask
        return cast(Tensor, dropped @ value)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, keys, queries, weights = ctx.saved_tensors
        of_scores, dropped = gradient_of_scores(gradient @ value.transpose(-1, -2), weights, ctx.lengths, ctx.mask)
        of_value = dropped.transpose(-1, -2) @ gradient
        of_query, of_key = of_scores @ key, of_scores.transpose(-1, -2) @ query
        of_vectors: list[Tensor | None] = []
        for states, vectors, of_states, given in (
            (query, keys, of_query, of_scores),
            (key, queries, of_key, of_scores.transpose(-1, -2)),
        ):
            of_vectors.append(None if vectors is None else torch.zeros_like(vectors))
            for block, products in _products(states, vectors, empty=True):
                _by_distance(products, len(states)).copy_(given[:, :, block])
                own, columns = _block(states, block), _columns(states.shape[2], block)
                of_block = (products @ vectors[:, columns]).unflatten(1, (len(states), -1))
                of_states[:, :, block] += of_block.transpose(0, 1)
                of_vectors[-1][:, columns] += products.transpose(-1, -2) @ own  # type: ignore[index]
        return None, None, of_query, of_key, of_value, *of_vectors


@faster
def weights_of(scores: Tensor, lengths: Tensor, mask: Mask) -> tuple[Tensor, Tensor]:
    """The softmax of scores, [n, A, S, S], which may be overwritten, over each sequence's keys; and the same after dropout."""
    weights = scores.masked_fill(~_are_tokens(scores, lengths)[:, None, None], -torch.inf).softmax(-1)
    return weights, _dropped(weights, lengths, mask)


@faster
def gradient_of_scores(gradient: Tensor, weights: Tensor, lengths: Tensor, mask: Mask) -> tuple[Tensor, Tensor]:
    """The gradient of the scores from that of the weights after dropout, which may be overwritten; and these weights again."""
    of_scores = torch._softmax_backward_data(_dropped(gradient, lengths, mask), weights, -1, weights.dtype)
    return of_scores, _dropped(weights, lengths, mask)


def _are_tokens(scores: Tensor, lengths: Tensor) -> Tensor:
    """Which of [n, S] are tokens."""
    return send(torch.arange(scores.shape[-1]) < lengths[:, None], scores.device)


def _dropped(weights: Tensor, lengths: Tensor, mask: Mask) -> Tensor:
    if not mask[1]:
        return weights
    is_token, names = _are_tokens(weights, lengths), mask[3].to(weights.device)
    names = names.new_zeros(is_token.shape).masked_scatter(is_token, names).flatten()
    places = torch.arange(len(names), device=weights.device).view(is_token.shape)
    return drop(weights.contiguous(), of_heads((*mask[:3], names), places, weights.shape[1]))


def _products(states: Tensor, vectors: Tensor | None, empty: bool = False) -> Iterator[tuple[slice, Tensor]]:
    """Products of a block of states, [n, A, S, D], after another, and the vectors of their distances; or zeros in their place.

    Each is [A, n * B, S + B].
    """
    count, heads, length, _ = states.shape
    for start in range(0, length, BLOCK) if vectors is not None else ():
        block = slice(start, min(start + BLOCK, length))
        columns, size = _columns(length, block), block.stop - block.start
        if empty:
            yield block, states.new_zeros(heads, count * size, columns.stop - columns.start)
        else:
            yield block, _block(states, block) @ vectors[:, columns].transpose(-1, -2)  # type: ignore[index]


def _block(states: Tensor, block: slice) -> Tensor:
    """Some tokens of each sequence, [n, A, S, D] to [A, n * B, D]."""
    return states.transpose(0, 1)[:, :, block].flatten(1, 2)


def _columns(length: int, block: slice) -> slice:
    """The distances of a block of tokens from all, and one more."""
    return slice(length - block.stop, 2 * length - block.start)


def _by_distance(products: Tensor, count: int) -> Tensor:
    """The view of products, [A, n * B, S + B], whose element i, j is that of token i and the distance j - i, [n, A, B, S]."""
    heads, rows, width = products.shape
    size = rows // count
    return products.as_strided((count, heads, size, width - size), (size * width, rows * width, width - 1, 1), size - 1)
