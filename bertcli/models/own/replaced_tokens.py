"""DeBERTa 3's model that detects replaced tokens, and how it shares the embeddings of its generator."""

from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding
from transformers import DebertaV2Config, PreTrainedModel
from transformers.activations import ACT2FN
from transformers.models.deberta_v2 import modeling_deberta_v2 as v2

from bertcli.data.packing.batches import PackedBatch, send

# T tokens of the batch, H hidden, V vocabulary


class Detection(nn.Module):
    """The head of the original: LayerNorm, a linear layer with GELU, and a logit a token."""

    def __init__(self, config: DebertaV2Config) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.classifier = nn.Linear(config.hidden_size, 1)
        self.activation = ACT2FN[config.hidden_act]

    def forward(self, states: Tensor) -> Tensor:
        """States of tokens with those of their [CLS] added, [T, H], to logits, [T]."""
        return cast(Tensor, self.classifier(self.activation(self.dense(self.LayerNorm(states))))[:, 0])


class DebertaV2ForPreTraining(v2.DebertaV2PreTrainedModel):  # type: ignore[misc]
    """A DeBERTa with the head for replaced tokens; `AutoModel` and the classes for tasks load its encoder."""

    def __init__(self, config: DebertaV2Config) -> None:
        super().__init__(config)
        self.deberta = v2.DebertaV2Model(config)
        self.mask_predictions = Detection(config)
        self.post_init()

    def save_pretrained(self, folder: Any, **options: Any) -> None:
        """Save the weights, those of shared embeddings being whole."""
        shared = self.deberta.embeddings.word_embeddings
        name = "deberta.embeddings.word_embeddings.weight"
        whole = shared.whole() if isinstance(shared, DisentangledEmbedding) else shared.weight
        super().save_pretrained(folder, state_dict={**self.state_dict(), name: whole}, **options)


class DisentangledEmbedding(nn.Embedding):
    """The sum of another embedding, which gets no gradient from here, and weights of its own (GDES, He et al. 2023)."""

    def __init__(self, base: nn.Embedding, own: Tensor) -> None:
        super().__init__(base.num_embeddings, base.embedding_dim, _weight=own)
        self.base = (base,)  # a part of the generator, not of this

    def forward(self, input: Tensor) -> Tensor:
        """Ids, [...], to embeddings, [..., H]."""
        shared: Tensor = self.base[0](input)
        return shared.detach() + super().forward(input)

    def whole(self) -> Tensor:
        """The embeddings of all tokens, [V, H]."""
        return (self.base[0].weight + self.weight).detach()


@torch.no_grad()
def disentangle_embeddings(model: PreTrainedModel, generator: PreTrainedModel, is_new: bool) -> None:
    """Have a model add weights of its own, at first zeros, to the generator's embeddings; those of a saved model stay."""
    base = generator.get_input_embeddings()
    own = torch.zeros_like(base.weight) if is_new else model.get_input_embeddings().weight - base.weight
    model.set_input_embeddings(DisentangledEmbedding(base, own))


def with_first(hidden: Tensor, batch: PackedBatch) -> Tensor:
    """Add the state of the first token of each sequence to those of all its tokens, [T, H]."""
    of_tokens = torch.repeat_interleave(torch.arange(len(batch.lengths)), torch.tensor(batch.lengths))
    # The gradient of an embedding is summed in the same order each time, on a GPU too, unlike that of index_select.
    return hidden + embedding(send(of_tokens, hidden.device), hidden.index_select(0, batch.first_tokens))
