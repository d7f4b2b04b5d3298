"""Attention within the sequences of a packed batch, through transformers' attention interface."""

from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.checkpoint import checkpoint
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel

from bertcli.data.packing.sequences import Group, Sequences
from bertcli.kernels import faster, fuse
from bertcli.models.dropout import Mask, drop, next_mask, of_heads, use_keyed_dropout

# T tokens of the batch, A heads, D size per head; of a group: n sequences, S the longest

PACKED = "packed"


def prepare_layers(model: PreTrainedModel) -> None:
    """Give a model keyed dropout and, where it runs packed, faster layers; weights and their names stay."""
    use_keyed_dropout(model)
    if is_packed(model):
        fuse(model, attend)


def is_packed(model: PreTrainedModel) -> bool:
    """Whether a model runs without padding."""
    return bool(model.config._attn_implementation == PACKED)


def is_causal(model: PreTrainedModel) -> bool:
    """Whether tokens see only those before them, as the first attention of a model says: a decoder's do, in most families."""
    flags = (module.is_causal for module in model.base_model.modules() if hasattr(module, "is_causal"))
    return bool(next(flags, False))


def reads_last(model: PreTrainedModel) -> bool:
    """Whether a head for texts reads the last token: where tokens see only those before them, or [CLS] is last."""
    return is_causal(model) or getattr(model.config, "summary_type", "") == "last"


def is_joined(model: PreTrainedModel) -> bool:
    """Whether a model joins two encoders of opposite directions (models/own/two_directions.py)."""
    return getattr(model.base_model, "joins_directions", False)


def packed_attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: None, **kwargs: Any
) -> tuple[Tensor, None]:
    """Attend for transformers: query, key and value, [1, A, T, D], to the context, [1, T, A, D], and no weights.

    `kwargs` has the `sequences` of the batch, which say whether attention is causal, `dropout` and `scaling`; there is no mask.
    """
    dropout = kwargs.get("dropout", 0.0) if module.training else 0.0
    states = (each.squeeze(0).transpose(0, 1)[:, None] for each in (query, key, value))
    return attend(kwargs["sequences"], dropout, kwargs["scaling"], *states).unsqueeze(0), None


def attend(sequences: Sequences, dropout: float, scaling: float, *states: Tensor) -> Tensor:
    """Attend within each sequence of a packed batch; return the context, [T, A, D].

    The states are query, key and value, [T, 3, A, D], or three of [T, 1, A, D].
    """
    return attention(sequences, next_mask(dropout, len(states[0])), scaling, *states)


@faster
def attention(sequences: Sequences, mask: Mask, scaling: float, *states: Tensor) -> Tensor:
    """As `attend`; the weights are dropped by a mask whose rows are named as the tokens."""
    found = []
    query, key, value = chain.from_iterable(each.unbind(1) for each in states)  # [T, A, D]
    for group, rows in sequences.groups_with_rows():
        q, k, v = (group.padded(each[rows]) for each in (query, key, value))  # [n, A, S, D]
        if mask[1]:  # the weights are computed again in the backward pass: kept, they take more memory than all else
            drawn = (*mask[:3], mask[3][rows])
            how: Any = {"use_reentrant": False, "preserve_rng_state": False}
            context = checkpoint(_dropped, q, k, v, group, drawn, scaling, **how)
        else:
            mask_or_order = {"is_causal": True} if group.is_causal else {"attn_mask": group.mask}
            context = scaled_dot_product_attention(q, k, v, scale=scaling, **mask_or_order)
        found.append(group.unpadded(context))
    found.append(query.new_zeros(sequences.idle, *query.shape[1:]))
    return torch.cat(found)


def _dropped(query: Tensor, key: Tensor, value: Tensor, group: Group, mask: Mask, scaling: float) -> Tensor:
    """The context of a group, [n, A, S, D]; dropout drops whole tokens to attend to, as in modeling.py."""
    scores = group.hide(query @ key.transpose(-1, -2) * scaling)  # [n, A, S, S]
    tokens = group.padded(torch.arange(group.tokens, device=query.device)[:, None, None])[:, 0, :, 0]  # [n, S]
    return drop(scores.softmax(-1), of_heads(mask, tokens, query.shape[1])) @ value


AttentionInterface.register(PACKED, packed_attention)
AttentionMaskInterface.register(PACKED, lambda *_, **__: None)
