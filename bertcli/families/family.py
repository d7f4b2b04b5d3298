"""A family of models: its model types, sizes, and differences from BERT."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bertcli.errors import unknown

if TYPE_CHECKING:
    from torch import Tensor, nn
    from transformers import PretrainedConfig, PreTrainedModel

# N sequences, H hidden


@dataclass(frozen=True)
class ModelSize:
    """Layers, hidden units and attention heads; the intermediate layer is four times as wide as the hidden one."""

    layers: int
    hidden: int
    heads: int
    source: str

    def parameters(self, vocab_size: int = 30522, positions: int = 512) -> int:
        """Number of weights of BERT's encoder with its pooler, without heads."""
        h = self.hidden
        embeddings = (vocab_size + positions + 2) * h + 2 * h
        layer = 4 * (h * h + h) + (8 * h * h + 5 * h) + 4 * h
        return embeddings + self.layers * layer + h * h + h


def starts_after_padding(model: PreTrainedModel) -> int:
    """The first position: the padding id + 1, as in RoBERTa, if the position embeddings have a row for it, else 0."""
    table = getattr(getattr(model.base_model, "embeddings", None), "position_embeddings", None)
    padding: int | None = getattr(table, "padding_idx", None)
    return 0 if padding is None else padding + 1


def pool_as_bert(base: nn.Module, first: Tensor) -> Any:
    """The pooler's output, [N, H], of the hidden states of the first tokens, [N, 1, H]."""
    return base.pooler(first)  # type: ignore[operator]


def has_bert_heads(model: PreTrainedModel) -> bool:
    """Whether a model has BERT's heads for masked-LM and next-sentence prediction."""
    return hasattr(getattr(model, "cls", None), "seq_relationship")


def predict_as_bert(model: PreTrainedModel, hidden: Tensor) -> Any:
    """The masked-LM head's logits, [T, V], of hidden states, [T, H]."""
    return model.cls.predictions(hidden)


@dataclass(frozen=True)
class Family:
    """Models of one architecture. The tokenizer's files say how pairs are separated; config.json, whether there are token types."""

    name: str
    model_types: tuple[str, ...] = ()  # as `model_type` in config.json
    is_packed: bool = False  # its layers attend through transformers' attention interface, over the whole sequence
    is_original: bool = False  # the paper's model: has TensorFlow checkpoints, and frozen features for taggers
    sizes: Mapping[str, ModelSize] = field(default_factory=dict)  # of new models
    settings: Callable[[ModelSize], dict[str, Any]] = lambda size: {}  # in config.json of a new model
    first_position: Callable[[PreTrainedModel], int] = lambda model: 0
    pool: Callable[[nn.Module, Tensor], Any] = pool_as_bert
    predict_tokens: Callable[[PreTrainedModel, Tensor], Any] = predict_as_bert
    can_pretrain: Callable[[PreTrainedModel], bool] = has_bert_heads
    prepare: Callable[[PreTrainedModel, str], None] = lambda model, source: None  # after loading

    def runs_packed(self, config: PretrainedConfig) -> bool:
        """Whether a model runs without padding; a decoder's tokens see only earlier ones, which needs a mask."""
        return self.is_packed and not getattr(config, "is_decoder", False)

    def get_size(self, name: str) -> ModelSize:
        """The size of a new model by its name. Raises UserError, with the nearest name, if there is none."""
        if name not in self.sizes:
            raise unknown("size", name, self.sizes, "`bert sizes` lists them.")
        return self.sizes[name]

    def new_config(self, size: str, **known: Any) -> PretrainedConfig:
        """The configuration of a new model; `known` does not follow from its size, such as `vocab_size`."""
        from transformers import AutoConfig

        return AutoConfig.for_model(self.model_types[0], **self.settings(self.get_size(size)), **known)
