"""ALBERT's encoder, whose layers can be computed again in the backward pass."""

from functools import partial
from typing import Any, cast

from torch import Tensor
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput
from transformers.models.albert.modeling_albert import AlbertTransformer


class SharedLayers(AlbertTransformer):  # type: ignore[misc]
    """The encoder of transformers with `gradient_checkpointing`, as other families have it, for all layers but the last."""

    gradient_checkpointing = False
    _gradient_checkpointing_func = cast(Any, None)

    def forward(self, hidden_states: Tensor, attention_mask: Tensor | None = None, **kwargs: Any) -> BaseModelOutput:
        """Embeddings, [N, S, E], to hidden states, [N, S, H]."""
        if not (self.gradient_checkpointing and self.training):
            return super().forward(hidden_states, attention_mask, **kwargs)
        hidden, count = self.embedding_hidden_mapping_in(hidden_states), self.config.num_hidden_layers
        for number in range(count):
            group = self.albert_layer_groups[int(number / (count / self.config.num_hidden_groups))]
            run = group if number == count - 1 else partial(self._gradient_checkpointing_func, group)
            hidden = run(hidden, attention_mask, **kwargs)
        return BaseModelOutput(last_hidden_state=hidden)


def allow_gradient_checkpointing(model: PreTrainedModel) -> PreTrainedModel:
    """Let the layers of an ALBERT of any class be computed again; any other model stays as it is."""
    encoder = getattr(model.base_model, "encoder", None)
    if type(encoder) is AlbertTransformer:
        encoder.__class__ = type(AlbertTransformer.__name__, (SharedLayers,), {})
        model.supports_gradient_checkpointing = True
    return model
