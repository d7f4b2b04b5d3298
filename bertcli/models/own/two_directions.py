"""A left-to-right and a right-to-left BERT, run apart and joined, as ELMo joins its two directions (BERT section 5.1)."""

from typing import Any, cast

import torch
import transformers
from torch import Tensor, nn
from transformers import BertConfig, BertModel, BertPreTrainedModel
from transformers.modeling_outputs import BaseModelOutput
from transformers.models.bert.modeling_bert import BertOnlyMLMHead

from bertcli.data.packing.sequences import Sequences

# T tokens of the batch, N sequences, R rows that are read, H hidden of one direction, C labels

NAMES = ("left_to_right", "right_to_left")


class TwoDirectionsConfig(BertConfig):  # type: ignore[misc]
    """The configuration of each of the two."""

    model_type = "two-directions"


class _PreTrained(BertPreTrainedModel):  # type: ignore[misc]
    config_class = TwoDirectionsConfig
    base_model_prefix = "encoders"


class TwoDirectionsModel(_PreTrained):
    """Two BERTs of causal attention with weights of their own; the second reads each sequence from its end."""

    joins_directions = True

    def __init__(self, config: TwoDirectionsConfig) -> None:
        super().__init__(config)
        for name in NAMES:
            self.add_module(name, BertModel(config, add_pooling_layer=False))
            self.get_submodule(name).embeddings.word_embeddings.padding_idx = None  # trained like any other
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        """The token embeddings of the first."""
        return cast(nn.Module, self.left_to_right.get_input_embeddings())

    def forward(self, sequences: Sequences, output_hidden_states: bool = False, **columns: Any) -> BaseModelOutput:
        """Packed columns, [1, T] each, to hidden states of both directions, [1, T, 2H]."""
        back = sequences.backwards  # its own inverse
        kept = {name: columns.pop(name) for name in list(columns) if not isinstance(columns[name], Tensor)}
        kept |= {"sequences": sequences, "output_hidden_states": output_hidden_states}
        first = self.left_to_right(**columns, **kept)
        second = self.right_to_left(**{name: column[:, back] for name, column in columns.items()}, **kept)

        def join(one: Tensor, other: Tensor) -> Tensor:
            return torch.cat([one, other[:, back]], dim=-1)

        layers = tuple(map(join, first.hidden_states or (), second.hidden_states or ())) or None
        return BaseModelOutput(join(first.last_hidden_state, second.last_hidden_state), layers)


class TwoDirectionsLMHeadModel(_PreTrained):
    """The two with a head each: the one predicts the next token, the other the previous one."""

    _tied_weights_keys = {  # noqa: RUF012
        f"{name}_head.predictions.decoder.{weight}": tied.format(name)
        for name in NAMES
        for weight, tied in (
            ("weight", "encoders.{}.embeddings.word_embeddings.weight"),
            ("bias", "{}_head.predictions.bias"),
        )
    }

    def __init__(self, config: TwoDirectionsConfig) -> None:
        super().__init__(config)
        self.encoders = TwoDirectionsModel(config)
        for name in NAMES:
            self.add_module(f"{name}_head", BertOnlyMLMHead(config))
        self.post_init()

    def predictions(self, direction: int, hidden: Tensor) -> Tensor:
        """Logits of one direction, [R, V], of hidden states of both, [R, 2H]."""
        logits: Tensor = self.get_submodule(f"{NAMES[direction]}_head").predictions(hidden.chunk(2, dim=1)[direction])
        return logits


class TwoDirectionsForTokenClassification(_PreTrained):
    """The two with a linear head on both, which the other heads share."""

    pools = False

    def __init__(self, config: TwoDirectionsConfig) -> None:
        super().__init__(config)
        self.encoders = TwoDirectionsModel(config)
        width = 2 * config.hidden_size
        self.pooler = nn.Linear(width, width) if self.pools else None
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.classifier = nn.Linear(width, config.num_labels)
        self.post_init()

    def forward(self, **columns: Any) -> dict[str, Tensor]:
        """Logits of the tokens that are read, [1, R, C], or of each sequence, [N, C]."""
        states = self.encoders(**columns).last_hidden_state  # [1, R, 2H] or [N, 1, 2H]
        if self.pooler is not None:
            states = self.pooler(states[:, 0]).tanh()
        return {"logits": self.classifier(self.dropout(states))}


class TwoDirectionsForSequenceClassification(TwoDirectionsForTokenClassification):
    """The head of a text, on the last token from the left and the first from the right, with a layer like BERT's pooler."""

    pools = True


class TwoDirectionsForMultipleChoice(TwoDirectionsForSequenceClassification):
    """The same for a choice."""

    def forward(self, **columns: Any) -> dict[str, Tensor]:
        """Logits of each choice, [N, 1]; the columns of tokens have an axis of choices."""
        deep = {name for name, each in columns.items() if isinstance(each, Tensor) and each.dim() > 2}
        return super().forward(**{name: each[:, 0] if name in deep else each for name, each in columns.items()})


class TwoDirectionsForQuestionAnswering(TwoDirectionsForTokenClassification):
    """The head of a span."""

    def forward(self, **columns: Any) -> dict[str, Tensor]:
        """Start and end logits of each token, [1, R]."""
        logits = super().forward(**columns)["logits"]
        return {"start_logits": logits[..., 0], "end_logits": logits[..., 1]}


CLASSES = {
    "AutoModel": TwoDirectionsModel,
    "AutoModelForCausalLM": TwoDirectionsLMHeadModel,
    "AutoModelForTokenClassification": TwoDirectionsForTokenClassification,
    "AutoModelForSequenceClassification": TwoDirectionsForSequenceClassification,
    "AutoModelForMultipleChoice": TwoDirectionsForMultipleChoice,
    "AutoModelForQuestionAnswering": TwoDirectionsForQuestionAnswering,
}
transformers.AutoConfig.register(TwoDirectionsConfig.model_type, TwoDirectionsConfig)
for _name, _class in CLASSES.items():
    getattr(transformers, _name).register(TwoDirectionsConfig, _class)
