"""The encoder run on real tokens only, through transformers' attention interface."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel

from bertcli.data.batches import PackedBatch
from bertcli.models.dropout import dropout as drop

# T tokens of the batch, N sequences, H hidden, A heads, D size per head; S length of a run's sequences, n their number

PACKED = "packed"


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
        kwargs: `runs`, sequences of equal length in a row as (n, S); `dropout`; `scaling`.

    Returns:
        The context, [1, T, A, D], and no weights.
    """
    runs: tuple[tuple[int, int], ...] = kwargs["runs"]
    dropout, scaling = kwargs.get("dropout", 0.0), kwargs["scaling"]
    sizes = [count * length for count, length in runs]
    parts = zip(*(x[0].split(sizes, dim=1) for x in (query * scaling, key, value)), strict=True)
    contexts = []
    for shape, tensors in zip(runs, parts, strict=True):
        q, k, v = (x.unflatten(1, shape) for x in tensors)  # [A, n, S, D]
        contexts.append(_attend(q, k, v, dropout, module.training).flatten(1, 2))  # [A, n * S, D]
    return torch.cat(contexts, dim=1).transpose(0, 1).unsqueeze(0), None


def _attend(query: Tensor, key: Tensor, value: Tensor, dropout: float, training: bool) -> Tensor:
    weights = torch.softmax(query @ key.transpose(-1, -2), dim=-1)  # [A, n, S, S]
    # Drops whole tokens to attend to, "which might seem a bit unusual, but is taken from the original Transformer paper"
    # (modeling.py).
    return drop(weights, dropout, training) @ value


def _no_mask(*args: Any, **kwargs: Any) -> None:
    """A packed batch has no padding, so there is nothing to mask."""


AttentionInterface.register(PACKED, packed_attention)
AttentionMaskInterface.register(PACKED, _no_mask)


def encode(model: PreTrainedModel, batch: PackedBatch, rows: Tensor | None = None) -> Tensor:
    """Run the encoder of a model over a packed batch; return the last hidden states, [T, H], or the rows read, [R, H].

    After its attention, the last layer is run for those rows only: nothing else reads the others.
    """
    last: Any = getattr(model.base_model.encoder.layer[-1], "attention", None)
    if rows is None or not hasattr(last, "output"):
        hidden: Tensor = _run(model, batch).last_hidden_state[0]
        return hidden if rows is None else hidden[rows]
    hook = last.output.register_forward_pre_hook(lambda _, states: tuple(state[:, rows] for state in states))
    try:
        hidden = _run(model, batch).last_hidden_state[0]
    finally:
        hook.remove()
    return hidden


def encode_layers(model: PreTrainedModel, batch: PackedBatch) -> list[Tensor]:
    """The same with every hidden state: the embeddings, then what each layer makes of them, each [T, H]."""
    return [states[0] for states in _run(model, batch, output_hidden_states=True).hidden_states]


def _run(model: PreTrainedModel, batch: PackedBatch, **asked: bool) -> Any:
    return model.base_model(
        input_ids=batch.input_ids[None],
        token_type_ids=batch.token_type_ids[None],
        position_ids=batch.position_ids[None],
        runs=batch.runs,
        **asked,
    )
