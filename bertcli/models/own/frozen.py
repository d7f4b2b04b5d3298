"""Features from the layers of an encoder that is not trained, and a BiLSTM tagger on them (BERT section 5.3)."""

from dataclasses import replace
from operator import itemgetter
from typing import Self, cast

import numpy as np
import psutil
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import BertConfig, BertModel, BertPreTrainedModel, PreTrainedModel

from bertcli import say
from bertcli.data.packing.batches import PackedBatch, evaluation_batches
from bertcli.data.packing.tag_features import TagFeatures
from bertcli.models.dropout import choose_rows, name_rows
from bertcli.models.encoder import encode_layers, in_precision
from bertcli.models.own.bilstm import BiLstm

# T tokens of the batch, W words to tag, K chosen layers, H hidden, D features, U units, C labels

SHARE_OF_MEMORY = 0.5  # of the free memory, which the kept features may take


def layer_numbers(layers: str, count: int) -> range:
    """The hidden states of a choice of layers: 0 is that of the embeddings, `count` that of the last layer."""
    if layers == "embeddings":
        return range(1)
    if layers == "second-to-last":
        return range(count - 1, count)
    return range(max(1, {"last": count, "weighted-sum-all": 1}.get(layers, count - 3)), count + 1)


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


class FrozenBertForTokenClassification(BertPreTrainedModel):  # type: ignore[misc]
    """A BERT without gradients, which `AutoModel` loads too, and a two-layer BiLSTM over the first pieces of words."""

    reads_batches = True

    def __init__(self, config: BertConfig, frozen_layers: str | None = None) -> None:
        config.frozen_layers = frozen_layers or config.frozen_layers
        config.lstm_units = getattr(config, "lstm_units", config.hidden_size)  # 768 beside base, as in the paper
        super().__init__(config)
        self.bert = BertModel(config, add_pooling_layer=False)
        count = len(layer_numbers(config.frozen_layers, config.num_hidden_layers))
        is_sum = "sum" in config.frozen_layers
        self.layer_weights = nn.Parameter(torch.zeros(count)) if is_sum else None
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        features = config.hidden_size * (1 if is_sum else count)
        self.lstm = BiLstm(features, config.lstm_units, num_layers=2, bidirectional=True)
        self.classifier = nn.Linear(2 * config.lstm_units, config.num_labels)
        self.post_init()

    def train(self, mode: bool = True) -> Self:
        """Train the BiLSTM and the classifier only; the features have no dropout."""
        super().train(mode)
        self.bert.requires_grad_(False).eval()
        return self

    def forward(self, batch: PackedBatch) -> Tensor:
        """Tag logits of each word, [W, C]."""
        states = batch.labels["states"] if "states" in batch.labels else self.word_states(batch)  # [W, K, H]
        features = combine(states.to(self.classifier.weight.dtype), self.config.frozen_layers, self.layer_weights)
        if self.training:
            name_rows(batch)
            choose_rows(self, batch.labels["word_positions"])
        hidden = self.lstm(self.dropout(features), _words_per_window(batch))  # [W, 2U]
        return cast(Tensor, self.classifier(self.dropout(hidden)))

    def word_states(self, batch: PackedBatch) -> Tensor:
        """The chosen hidden states of the first piece of each word, [W, K, H]."""
        return layer_states(self, batch, self.config.frozen_layers)[batch.labels["word_positions"]]


def saved_layers(saved: BertConfig | None) -> str | None:
    """The layers that a saved BiLSTM reads; None where the head is another."""
    is_frozen = saved is not None and FrozenBertForTokenClassification.__name__ in (saved.architectures or [])
    return str(saved.frozen_layers) if saved is not None and is_frozen else None


def _words_per_window(batch: PackedBatch) -> list[int]:
    before = torch.searchsorted(batch.labels["word_positions"].cpu(), torch.cumsum(torch.tensor(batch.lengths), dim=0))
    return torch.diff(before, prepend=torch.zeros(1, dtype=torch.long)).tolist()


def with_states(
    model: FrozenBertForTokenClassification, features: TagFeatures, device: torch.device, tokens: int, dtype: str
) -> TagFeatures:
    """Run the BERT once, `tokens` at a time, and keep the hidden states of all words if half of the free memory holds them."""
    model.eval()
    words, config = int(features.places.lengths.sum()), model.config
    say_if_fewer(config.frozen_layers, config.num_hidden_layers)
    layers = len(layer_numbers(config.frozen_layers, config.num_hidden_layers))
    size = words * layers * config.hidden_size * 4
    what = f"frozen features of {words:,} words, {layers} × {config.hidden_size} numbers each, {size / 1e6:,.1f} MB"
    if size > SHARE_OF_MEMORY * psutil.virtual_memory().available:
        say(f"{what}: more than half of the free memory, so they are computed at each step")
        return features
    say(f"{what}: computed once and kept in memory")
    found: list[tuple[int, NDArray[np.float32]]] = []
    with torch.inference_mode(), in_precision(model, dtype):
        for batch in evaluation_batches(features, tokens):
            states = model.word_states(batch.to(device)).float().cpu().numpy()
            found += zip(batch.rows.tolist(), states, strict=True)
    return replace(features, states=[states for _, states in sorted(found, key=itemgetter(0))])
