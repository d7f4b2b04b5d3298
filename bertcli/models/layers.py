"""Features read off the layers of an encoder that is left as it is (BERT section 5.3)."""

import torch
from torch import Tensor
from transformers import PreTrainedModel

from bertcli import say
from bertcli.data.packing.batches import PackedBatch
from bertcli.models.encoder import encode_layers

# T tokens of the batch, K chosen layers, H hidden, D features


def layer_numbers(layers: str, count: int) -> range:
    """Which hidden states a choice takes, 0 the embeddings, `count` the last; of fewer than four layers, all."""
    if layers == "embeddings":
        return range(1)
    if layers == "second-to-last":
        return range(count - 1, count)
    first = {"last": count, "weighted-sum-all": 1}.get(layers, count - 3)
    return range(max(1, first), count + 1)


def say_if_fewer(layers: str, count: int) -> None:
    """Say that the last four layers are not four."""
    if layers.endswith("last-four") and count < 4:
        say(f"{layers}: the model has {count} layers, and all of them are taken")


@torch.no_grad()
def layer_states(model: PreTrainedModel, batch: PackedBatch, layers: str) -> Tensor:
    """The chosen hidden states of every token, [T, K, H]."""
    states = encode_layers(model, batch)
    return torch.stack([states[number] for number in layer_numbers(layers, len(states) - 1)], dim=1)


def combine(states: Tensor, layers: str, weights: Tensor | None = None) -> Tensor:
    """Make one vector of a token's hidden states, [T, D]: their sum, weighted by the softmax of [K], or one after another."""
    if weights is not None:
        states = states * torch.softmax(weights, dim=0)[:, None]
    return states.sum(dim=1) if "sum" in layers else states.flatten(1)
