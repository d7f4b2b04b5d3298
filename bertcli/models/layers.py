"""Features from the layers of an encoder that is not trained (BERT section 5.3)."""

import torch
from torch import Tensor
from transformers import PreTrainedModel

from bertcli import say
from bertcli.data.packing.batches import PackedBatch
from bertcli.models.encoder import encode_layers

# T tokens of the batch, K chosen layers, H hidden, D features


def layer_numbers(layers: str, count: int) -> range:
    """The hidden states of a choice of layers: 0 is that of the embeddings, `count` that of the last layer."""
    if layers == "embeddings":
        return range(1)
    if layers == "second-to-last":
        return range(count - 1, count)
    first = {"last": count, "weighted-sum-all": 1}.get(layers, count - 3)
    return range(max(1, first), count + 1)


def say_if_fewer(layers: str, count: int) -> None:
    """Say so if the last four layers are fewer than four."""
    if layers.endswith("last-four") and count < 4:
        say(f"{layers}: the model has only {count} layers; all are used")


@torch.no_grad()
def layer_states(model: PreTrainedModel, batch: PackedBatch, layers: str) -> Tensor:
    """The chosen hidden states of every token, [T, K, H]."""
    states = encode_layers(model, batch)
    return torch.stack([states[number] for number in layer_numbers(layers, len(states) - 1)], dim=1)


def combine(states: Tensor, layers: str, weights: Tensor | None = None) -> Tensor:
    """Combine the hidden states of each token into a vector, [T, D]: concatenated, or summed with softmax(weights), [K]."""
    if weights is not None:
        states = states * torch.softmax(weights, dim=0)[:, None]
    return states.sum(dim=1) if "sum" in layers else states.flatten(1)
