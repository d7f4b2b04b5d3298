"""XLNet on packed batches: tokens that are read, tokens that are predicted, and positions relative to each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, XLNetModel
from transformers.models.xlnet.modeling_xlnet import XLNetModelOutput

from bertcli.data.packing.batches import PackedBatch
from bertcli.data.packing.sequences import LENGTH_STEP, Sequences
from bertcli.kernels import faster
from bertcli.models.dropout import Mask, choose_rows, drop, drop_alike, name_again, name_rows, next_mask, of_heads
from bertcli.models.own.permuted import Keys, Predictions, Queries, column, groups_of

# T tokens of the batch, N sequences, P predictions, H hidden, A heads, D size per head, M tokens of memory a sequence;
# of a group: n sequences, S the longest, Q its queries a sequence, K keys: M + S, R distances: 2K

# The score of what a token does not attend to, as in the original: with nothing to attend to, it attends uniformly.
NOT_SEEN = -1e30
WAVES = 10_000.0  # the longest wave of positions


class PackedXLNetModel(XLNetModel):  # type: ignore[misc]
    """XLNet's encoder without padding; its weights are those of transformers.

    Dropout drops the same elements of position encodings in all sequences of a batch: a layer multiplies each distance once.
    """

    boundaries: Sequences | None = None  # of the next batch, where a head is run
    gradient_checkpointing = False
    _gradient_checkpointing_func = cast(Any, None)

    def forward(self, input_ids: Tensor, sequences: Sequences | None = None, **columns: Any) -> XLNetModelOutput:
        """Packed columns, [1, T], to hidden states, [1, T, H]; without the boundaries of the sequences, padded columns."""
        boundaries, self.boundaries = sequences or self.boundaries, None
        if boundaries is None:
            if columns.get("attention_mask") is not None:  # in numbers that ONNX subtracts from 1
                columns["attention_mask"] = columns["attention_mask"].to(self.dtype)
            return super().forward(input_ids, **columns)
        types = columns.get("token_type_ids")
        layers = self.layers(input_ids[0], None if types is None else types[0], boundaries)
        states = tuple(each[None] for each in layers) if columns.get("output_hidden_states") else None
        return XLNetModelOutput(last_hidden_state=self.dropout(layers[-1])[None], hidden_states=states)

    def layers(
        self,
        ids: Tensor,
        types: Tensor | None,
        sequences: Sequences,
        predictions: Predictions | None = None,
        memory: Sequence[Tensor] = (),
        directions: Tensor | None = None,
    ) -> list[Tensor]:
        """The input of each layer, [T + P, H], and the output of the last: [T, H], or of the predictions alone, [P, H], if any.

        A prediction sees neither its own token nor those that are hidden from it. `memory` has the inputs of each layer for
        the tokens before the sequences, [N, M, H], of type 0. Where the direction of a sequence, [N], is 1, positions count back.
        """
        embedded, count = self.word_embedding(ids), len(ids)
        if predictions is not None:
            name_again(self, predictions.positions)
            embedded = torch.cat([embedded, self.mask_emb[0].expand(len(predictions.positions), -1)])
        found = [self.dropout(embedded)]
        length = memory[0].shape[1] if memory else 0
        groups = list(groups_of(types, sequences, predictions, length))
        longest = max(each.group.shape[1] for each in groups)  # with padding
        encodings = self._encodings(length + longest - 1, found[0].dtype)
        for number, layer in enumerate(self.layer):
            states, contents = found[-1], found[-1][:count]
            is_last = predictions is not None and number == len(self.layer) - 1
            if is_last:
                if len(states) == count:  # nothing reads what becomes of the tokens
                    break
                states = states[count:]
                choose_rows(self, slice(count, None))
            before, attend = memory[number] if memory else None, _Attention(layer.rel_attn, groups, directions)
            given = (layer, attend, encodings, states, contents, before, not is_last)
            again = self.gradient_checkpointing and self.training and number < len(self.layer) - 1
            found.append(self._gradient_checkpointing_func(_layer, *given) if again else _layer(*given))
        return found

    def _encodings(self, furthest: int, dtype: torch.dtype) -> Tensor:
        """Encodings of the distances from the furthest to its negative, and one more, for whole cache lines: [R, H]."""
        device = self.mask_emb.device
        distances = torch.arange(furthest, -furthest - 2, -1.0, device=device)
        if self.clamp_len > 0:
            distances = distances.clamp(-self.clamp_len, self.clamp_len)
        angles = distances[:, None] / WAVES ** (torch.arange(0, self.d_model, 2.0, device=device) / self.d_model)
        return drop_alike(torch.cat([angles.sin(), angles.cos()], -1).to(dtype), self.dropout.p, self.training)


class _Attention:
    """The attention of one layer."""

    def __init__(self, weights: Any, groups: list[Keys], directions: Tensor | None) -> None:
        self.weights, self.groups, self.directions = weights, groups, directions

    def __call__(
        self, encodings: Tensor, states: Tensor, contents: Tensor, before: Tensor | None, with_tokens: bool
    ) -> Tensor:
        """The context of the states, [T + P, A, D], or without tokens [P, A, D]."""
        self.relative = _heads(encodings, self.weights.r).permute(1, 2, 0).contiguous()  # [A, D, R]
        weights, count = self.weights, len(contents) if with_tokens else 0
        query = _heads(states, weights.q)
        self.mask = next_mask(weights.dropout.p if weights.training else 0.0, len(states))
        of_tokens, of_predictions = [], []
        parts = (weights.k, weights.v)
        for keys in self.groups:
            both = [keys.group.padded(_heads(contents[keys.rows], part)) for part in parts]  # [n, A, S, D]
            if before is not None:
                memory = [_heads(before[keys.sequences], part).transpose(1, 2) for part in parts]
                both = [torch.cat(pair, 2) for pair in zip(memory, both, strict=True)]
            key, value = (each.transpose(0, 1).contiguous() for each in both)  # [A, n, K, D]
            if with_tokens:
                of_tokens.append(self._context(query[:count], 0, keys, keys.tokens, (key, value)))
            if keys.predictions is not None:
                of_predictions.append(self._context(query[count:], count, keys, keys.predictions, (key, value)))
        idle = count - sum(map(len, of_tokens))
        return torch.cat([*of_tokens, query.new_zeros(idle, *query.shape[1:]), *of_predictions])

    def _context(self, query: Tensor, first: int, keys: Keys, asking: Queries, read: tuple[Tensor, Tensor]) -> Tensor:
        """What some of the queries, which are the states from row `first` on, read of a group's keys: [queries, A, D]."""
        weights = self.weights
        asked = asking.group.padded(query[asking.rows] * weights.scale).transpose(0, 1).contiguous()  # [A, n, Q, D]
        biases = (weights.r_r_bias, weights.r_w_bias, weights.r_s_bias)
        of_place, of_content, of_type = (bias[:, None] * weights.scale for bias in biases)
        flat, (longest, size) = asked.flatten(1, 2), (read[0].shape[2], self.relative.shape[2])
        needed = slice(size // 2 - longest, size // 2 + longest)  # the others are of longer sequences
        by_distance = ((flat + of_place) @ self.relative[..., needed]).view(*asked.shape[:3], -1)
        by_content = (asked + of_content[:, None]) @ read[0].transpose(2, 3)
        other = (weights.seg_embed[1] - weights.seg_embed[0])[..., None]  # softmax cancels what all keys have in common
        by_type = (flat @ other + of_type @ other).view(asked.shape[:3])
        mask = (*self.mask[:3], self._names(first, asking, query.device)) if self.mask[1] else self.mask
        is_backwards = None if self.directions is None else self.directions[keys.sequences]
        shares = shares_of_keys(by_content, by_distance, by_type, asking, is_backwards, mask)
        return asking.group.unpadded((shares @ read[1]).transpose(0, 1))

    def _names(self, first: int, asking: Queries, device: torch.device) -> Tensor:
        """The names of queries for dropout, [n, Q], which are the states from row `first` on."""
        rows = torch.arange(asking.rows.start, asking.rows.stop, device=device) + first
        return self.mask[3].to(device)[column(rows, asking.group, slice(None))]


def _layer(layer: Any, attend: _Attention, encodings: Tensor, states: Tensor, *others: Any) -> Any:
    """What a layer makes of states, [T + P, H] or [P, H]; the others are those of attention."""
    attended = multiply(attend(encodings, states, *others).flatten(1), layer.rel_attn.o.flatten(1).T)
    mask = next_mask(layer.rel_attn.dropout.p if layer.training else 0.0, len(attended))
    return layer.ff(add_and_norm(attended, states, layer.rel_attn.layer_norm, mask))


@faster
def shares_of_keys(
    by_content: Tensor, by_distance: Tensor, by_type: Tensor, asking: Queries, is_backwards: Tensor | None, mask: Mask
) -> Tensor:
    """The shares of keys, [A, n, Q, K], after dropout by a mask of queries, [n, Q].

    They are of scores by content, [A, n, Q, K]; by distance, [A, n, Q, R]; and of keys of another type, [A, n, Q].
    """
    heads, count, _, keys = by_content.shape
    ahead = torch.arange(keys, device=by_content.device) - asking.places[..., None]  # [n, Q, K]
    if is_backwards is not None:
        ahead = torch.where(is_backwards[:, None, None] > 0, -ahead, ahead)
    scores = by_content + by_distance.gather(3, (keys - 1 + ahead).expand(heads, -1, -1, -1))
    scores = torch.addcmul(scores, by_type[..., None], asking.differs.to(scores.dtype))
    shares = (scores + asking.hidden.to(scores.dtype) * NOT_SEEN).softmax(-1)
    if not mask[1]:
        return shares
    numbers = torch.arange(mask[3].numel()).view(count, -1)
    key, dropped, scale, names = of_heads((*mask[:3], mask[3].flatten()), numbers, heads)
    return drop(shares, (key, dropped, scale, names.view(count, heads, -1).transpose(0, 1).flatten()))


def _heads(states: Tensor, weight: Tensor) -> Tensor:
    """States, [..., H], times a weight, [H, A, D], to [..., A, D]."""
    return multiply(states, weight.flatten(1)).view(*states.shape[:-1], *weight.shape[1:])


@faster
def add_and_norm(attended: Tensor, states: Tensor, norm: nn.LayerNorm, mask: Mask) -> Tensor:
    """LayerNorm of the sum of states and, after dropout, of what they attended to: [T, H]."""
    return cast(Tensor, norm((drop(attended, mask) if mask[1] else attended) + states))


@faster
def multiply(states: Tensor, weight: Tensor) -> Tensor:
    """States, [..., H], times a weight, [H, L], to [..., L]."""
    return states @ weight


def predict(
    model: PreTrainedModel,
    batch: PackedBatch,
    predictions: Predictions,
    memory: Sequence[Tensor] = (),
    directions: Tensor | None = None,
) -> Tensor:
    """The hidden states of predictions, [P, H]; see PackedXLNetModel.layers."""
    base: Any = model.base_model
    return cast(Tensor, base.dropout(_layers(model, batch, predictions, memory, directions)[-1]))


def _layers(model: PreTrainedModel, batch: PackedBatch, predictions: Predictions, *more: Any) -> list[Tensor]:
    base: Any = model.base_model
    if model.training:
        name_rows(batch)
    sequences = Sequences(batch.lengths, 0, batch.input_ids.device, LENGTH_STEP if model.dtype == torch.bfloat16 else 1)
    return cast(list[Tensor], base.layers(batch.input_ids, batch.token_type_ids, sequences, predictions, *more))


@torch.no_grad()
def remember(model: PreTrainedModel, batch: PackedBatch, columns: Sequence[Tensor], directions: Tensor) -> list[Tensor]:
    """The input of each layer, [N, C, H], for the tokens before the sequences of a batch.

    The columns are ids, own ranks and ranks, [N, C] each; the directions, [N], those of the sequences.
    """
    ids, own_ranks, ranks = columns
    count, length = ids.shape
    places = torch.arange(length, device=ids.device).repeat(count)
    before = replace(batch, input_ids=ids.flatten(), position_ids=places, lengths=(length,) * count)
    before = replace(before, token_type_ids=torch.zeros_like(before.input_ids))
    nothing = places[:0]
    order = Predictions(nothing, nothing, (0,) * count, own_ranks.flatten(), ranks.flatten())
    return [states.view(count, length, -1) for states in _layers(model, before, order, (), directions)]


def predict_alone(model: PreTrainedModel, batch: PackedBatch, positions: Tensor) -> Tensor:
    """The hidden states of tokens, [P, H], at ascending positions, that no token sees: each is predicted from all others."""
    ranks = torch.full_like(batch.input_ids, -1).index_fill_(0, positions, 0)
    ends = torch.tensor(batch.lengths).cumsum(0)
    counts = torch.searchsorted(ends, positions.cpu(), right=True).bincount(minlength=len(ends))
    places = batch.position_ids[positions]
    return predict(model, batch, Predictions(positions, places, tuple(counts.tolist()), torch.zeros_like(ranks), ranks))


def has_two_streams(model: PreTrainedModel) -> bool:
    """Whether a model predicts tokens by a stream of their own."""
    return isinstance(model.base_model, PackedXLNetModel)


class ReadingLast:
    """A head of transformers that reads the last column of a batch, where padding must not be."""

    def forward_padded(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Any:
        """Columns that are padded at their end, [..., S], to the outputs of the head."""
        length = input_ids.shape[-1]
        places = torch.arange(length, device=input_ids.device) + attention_mask.sum(-1, keepdim=True)
        places = torch.where(places >= length, places - length, places)  # padding first
        given = {"input_ids": input_ids, "attention_mask": attention_mask, "token_type_ids": token_type_ids}
        return self(**{name: column.gather(-1, places) for name, column in given.items()})  # type: ignore[operator]


def run_packed(model: PreTrainedModel) -> PreTrainedModel:
    """Have an XLNet of any class take packed batches; any other model stays as it is."""
    base = model.base_model
    if type(base) is XLNetModel:
        base.__class__ = type(XLNetModel.__name__, (PackedXLNetModel,), {})
        model.supports_gradient_checkpointing = True
        if base is not model:
            model.register_forward_pre_hook(_hand_on, with_kwargs=True)
        if hasattr(model, "sequence_summary") and not isinstance(model, ReadingLast):
            model.__class__ = type(type(model).__name__, (ReadingLast, type(model)), {})
    return model


def _hand_on(model: Any, args: Any, columns: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Take the boundaries of the sequences past the head, which would not pass them on."""
    model.base_model.boundaries = columns.pop("sequences", None)
    columns.pop("position_ids", None)
    return args, columns
