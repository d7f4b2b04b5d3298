"""DeBERTa over packed batches, and its enhanced mask decoder."""

from typing import Any, cast

import torch
import transformers
from torch import Tensor, nn
from torch.nn.functional import pad
from transformers import DebertaConfig, DebertaV2Config, PreTrainedModel
from transformers.activations import ACT2FN
from transformers.modeling_outputs import BaseModelOutput
from transformers.models.deberta import modeling_deberta as v1
from transformers.models.deberta_v2 import modeling_deberta_v2 as v2

from bertcli.data.packing.sequences import Sequences
from bertcli.models.dropout import Mask, choose_rows, next_mask
from bertcli.models.own.disentangled import attend

# T tokens of the batch, R rows that are read, H hidden, A heads, D size per head; of a group: n sequences, S the longest

DECODINGS = 2  # times that the enhanced mask decoder runs the last layer
WORDS = "deberta.embeddings.word_embeddings.weight"
POSITIONS = "deberta.embeddings.position_embeddings.weight"


class PackedAttention(nn.Module):
    """Attends within each sequence where it is given their boundaries in the place of a mask."""

    num_attention_heads: int
    attention_head_size: int
    pos_att_type: list[str]
    dropout: nn.Dropout

    def forward(self, hidden_states: Tensor, attention_mask: Any, *args: Any, **kwargs: Any) -> tuple[Tensor, Any]:
        """[1, T, H] to the context, [1, T, H], and no weights."""
        if not isinstance(attention_mask, Sequences):
            return cast("tuple[Tensor, Any]", super().forward(hidden_states, attention_mask, *args, **kwargs))
        query, *known = self.project(hidden_states[0])
        mask = self.next_mask(len(query))
        return self.attend(attention_mask, mask, kwargs["rel_embeddings"], query, *known)[None], None

    def next_mask(self, tokens: int) -> Mask:
        """The mask of the next weights, which drops nothing unless training."""
        return next_mask(self.dropout.p if self.training else 0.0, tokens)

    def attend(self, sequences: Sequences, mask: Mask, table: Tensor | None, *states: Tensor) -> Tensor:
        """The context, [T, H], of queries, keys and values, [T, A, D] each, and embeddings of relative positions, [2k, H]."""
        terms = 1 + sum(name in self.pos_att_type for name in ("c2p", "p2c"))
        return attend(self, sequences, mask, (terms * self.attention_head_size) ** -0.5, table, *states)

    def project(self, states: Tensor) -> tuple[Tensor, ...]:
        """Query, key and value of [T, H], [T, A, D] each."""
        return self.query(states), *self.key_and_value(states)

    def query(self, states: Tensor) -> Tensor:
        """The query alone."""
        return self.project(states)[0]

    def key_and_value(self, states: Tensor) -> tuple[Tensor, ...]:
        """Key and value alone."""
        return self.project(states)[1:]


class PackedAttentionV1(PackedAttention):
    """Query, key and value of a head are neighbours in one matrix; relative positions have matrices of their own."""

    in_proj: nn.Linear
    q_bias: Tensor
    v_bias: Tensor

    def project(self, states: Tensor) -> tuple[Tensor, ...]:
        """Query, key and value of [T, H], [T, A, D] each."""
        query, key, value = self.in_proj(states).unflatten(1, (self.num_attention_heads, 3, -1)).unbind(2)
        return query + self.q_bias.view_as(query[0]), key, value + self.v_bias.view_as(value[0])

    def project_positions(self) -> tuple[nn.Linear | None, nn.Linear | None]:
        """What makes keys and queries of the embeddings of relative positions; None for a term that is left out."""
        return getattr(self, "pos_proj", None), getattr(self, "pos_q_proj", None)


class PackedAttentionV2(PackedAttention):
    """Relative positions mostly share the matrices of the content."""

    query_proj: nn.Linear
    key_proj: nn.Linear
    value_proj: nn.Linear
    share_att_key: bool

    def query(self, states: Tensor) -> Tensor:
        """The query of [T, H], [T, A, D]."""
        return self._of_heads(self.query_proj(states))

    def key_and_value(self, states: Tensor) -> tuple[Tensor, ...]:
        """Key and value of [T, H], [T, A, D] each."""
        return self._of_heads(self.key_proj(states)), self._of_heads(self.value_proj(states))

    def _of_heads(self, states: Tensor) -> Tensor:
        return states.view(len(states), self.num_attention_heads, -1)

    def project_positions(self) -> tuple[nn.Linear | None, nn.Linear | None]:
        """The same: those of the content, or its own."""
        if not self.share_att_key:
            return getattr(self, "pos_key_proj", None), getattr(self, "pos_query_proj", None)
        has_keys, has_queries = (name in self.pos_att_type for name in ("c2p", "p2c"))
        return self.key_proj if has_keys else None, self.query_proj if has_queries else None


class PackedEncoder(nn.Module):
    """A DeBERTa, with or without heads' enhanced mask decoder, that takes packed columns with the boundaries of sequences."""

    embeddings: Any
    encoder: Any
    boundaries: Sequences | None = None  # from a head, whose class does not hand them on

    @property
    def decodes_masks(self) -> bool:
        """Whether it has absolute positions that only the enhanced mask decoder reads."""
        return self.embeddings.position_embeddings is not None and not self.embeddings.position_biased_input

    def forward(
        self,
        input_ids: Tensor | None = None,
        *args: Any,
        sequences: Sequences | None = None,
        rows: Tensor | None = None,
        output_hidden_states: bool | None = None,
        **columns: Any,
    ) -> Any:
        """Packed columns, [1, T] each, to the last hidden states, [1, T, H], or the decoded ones of masks at `rows`, [1, R, H]."""
        is_of_head = self.boundaries is not None
        self.boundaries, sequences = None, sequences or self.boundaries
        if sequences is None or input_ids is None:
            return super().forward(input_ids, *args, output_hidden_states=output_hidden_states, **columns)
        if rows is None and is_of_head and self.decodes_masks:
            rows = torch.arange(input_ids.shape[1], device=input_ids.device)
        states = self._encode(input_ids, columns, sequences, rows)
        return BaseModelOutput(states[-1], tuple(states) if output_hidden_states else None)

    def _encode(
        self, input_ids: Tensor, columns: dict[str, Any], sequences: Sequences, rows: Tensor | None
    ) -> list[Tensor]:
        """All hidden states, [1, T, H] each; the last ones are decoded, [1, R, H], where there are rows."""
        positions, conv = columns.get("position_ids"), getattr(self.encoder, "conv", None)
        states = [self.embeddings(input_ids, columns.get("token_type_ids"), positions)]
        table = self.encoder.get_rel_embedding()
        for number, layer in enumerate(self.encoder.layer[: None if rows is None else -1]):
            hidden, _ = layer(states[-1], sequences, rel_embeddings=table)
            states.append(self._convolve(states[0], hidden, sequences) if number == 0 and conv is not None else hidden)
        if rows is not None:
            absolute = self.embeddings.position_embeddings(positions)
            states.append(self._decode(states[-1], absolute, sequences, table, rows))
        return states

    def _decode(self, hidden: Tensor, positions: Tensor, sequences: Sequences, table: Tensor, rows: Tensor) -> Tensor:
        """Run the last layer twice with absolute positions in its queries; keys and values are those of `hidden`, [1, T, H].

        Only the queries of the tokens in `rows` are computed, [1, R, H].
        """
        layer: Any = self.encoder.layer[-1]
        attention = layer.attention.self
        known = attention.key_and_value(hidden[0])
        states = (hidden + positions).index_select(1, rows)
        masks = [attention.next_mask(hidden.shape[1]) for _ in range(DECODINGS)]
        choose_rows(self, rows)
        for mask in masks:
            chosen = attention.query(states[0])
            query = torch.zeros_like(known[0]).index_copy(0, rows, chosen)  # the others are not read
            context = attention.attend(sequences, mask, table, query, *known).index_select(0, rows)
            middle = layer.attention.output(context[None], states)
            states = layer.output(layer.intermediate(middle), middle)
        return states

    def _convolve(self, embedded: Tensor, hidden: Tensor, sequences: Sequences) -> Tensor:
        """Add the convolution of the embeddings within each sequence to the first layer's states, [1, T, H]."""
        conv, found = self.encoder.conv, []
        for group, rows in sequences.groups_with_rows():
            padded = group.padded(embedded[0, rows, None])[:, 0]  # [n, S, H]
            found.append(group.unpadded(conv.conv(padded.transpose(1, 2)).transpose(1, 2)[:, None])[:, 0])
        convolved = pad(torch.cat(found), (0, 0, 0, sequences.idle))
        return cast(Tensor, conv.LayerNorm(hidden + ACT2FN[conv.conv_act](conv.dropout(convolved))))


PARTS = {v1.DisentangledSelfAttention: PackedAttentionV1, v2.DisentangledSelfAttention: PackedAttentionV2}
PARTS |= dict.fromkeys((v1.DebertaModel, v2.DebertaV2Model), PackedEncoder)


def run_packed(model: PreTrainedModel) -> PreTrainedModel:
    """Have a DeBERTa of any class take packed batches; weights and their names stay. Any other model stays as it is."""
    if type(model.base_model) in PARTS and model.base_model is not model:
        model.register_forward_pre_hook(_hand_on, with_kwargs=True)
    for parent in list(model.modules()):
        if type(parent) in PARTS:
            parent.__class__ = type(type(parent).__name__, (PARTS[type(parent)], type(parent)), {})
        for name, child in parent.named_children():
            if isinstance(child, v1.DebertaLayerNorm):
                setattr(parent, name, _plain_norm(child))
    return model


def _plain_norm(norm: Any) -> nn.LayerNorm:
    """The same, as torch computes it."""
    plain = nn.LayerNorm(norm.weight.shape[0], norm.variance_epsilon)
    plain.weight, plain.bias = norm.weight, norm.bias
    return plain


def _hand_on(model: Any, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    model.base_model.boundaries = kwargs.pop("sequences", None)
    return args, kwargs


_AnyModel: Any = object  # in front of a class of transformers


class _MaskedLM(_AnyModel):  # type: ignore[misc]
    """A class of transformers with the enhanced mask decoder, whose weights are one table of positions more."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        if not config.position_biased_input and getattr(config, "enhanced_mask_decoder", True):
            table = nn.Embedding(config.max_position_embeddings, config.hidden_size)
            self.deberta.embeddings.position_embeddings = table
        if not config.legacy:  # whose head reads the embeddings without having them
            self.lm_predictions.lm_head.weight = self.get_input_embeddings().weight
            self._tied_weights_keys = {"lm_predictions.lm_head.weight": WORDS}
        self.post_init()

    def get_output_embeddings(self) -> Any:
        """The module that has the weight and the bias of the logits."""
        return super().get_output_embeddings() if self.config.legacy else self.lm_predictions.lm_head

    def resize_token_embeddings(self, count: int, **options: Any) -> Any:
        """Give the embeddings, and the bias of the logits, another number of rows."""
        if self.config.legacy:
            return super().resize_token_embeddings(count, **options)
        table, head = self.get_input_embeddings(), self.lm_predictions.lm_head
        kept = min(count, table.num_embeddings)
        grown = nn.Embedding(count, table.embedding_dim, dtype=table.weight.dtype, device=table.weight.device)
        bias = nn.Parameter(torch.zeros(count, dtype=head.bias.dtype, device=head.bias.device))
        with torch.no_grad():
            nn.init.normal_(grown.weight, std=self.config.initializer_range)[:kept] = table.weight[:kept]
            bias[:kept] = head.bias[:kept]
        self.set_input_embeddings(grown)
        head.weight, head.bias, self.config.vocab_size = grown.weight, bias, count
        return grown

    @classmethod
    def from_pretrained(cls, *args: Any, output_loading_info: bool = False, **kwargs: Any) -> Any:
        """Load weights, the original's head too, whose config.json does not name it.

        Where they have no absolute positions, masks are read off the last layer, as in transformers.
        """
        model, info = super().from_pretrained(*args, output_loading_info=True, **kwargs)
        if model.config.legacy and any(key.startswith("lm_predictions.") for key in info["unexpected_keys"]):
            return cls.from_pretrained(*args, output_loading_info=output_loading_info, **kwargs, legacy=False)
        if POSITIONS in info["missing_keys"]:
            info["missing_keys"] = set(info["missing_keys"]) - {POSITIONS}
            model.config.enhanced_mask_decoder, model.deberta.embeddings.position_embeddings = False, None
        return (model, info) if output_loading_info else model


class DebertaForMaskedLM(_MaskedLM, v1.DebertaForMaskedLM):  # type: ignore[misc]
    """DeBERTa (He et al. 2021) with its mask decoder."""


class DebertaV2ForMaskedLM(_MaskedLM, v2.DebertaV2ForMaskedLM):  # type: ignore[misc]
    """DeBERTa of the versions 2 and 3 with the mask decoder."""


CLASSES = {DebertaConfig: DebertaForMaskedLM, DebertaV2Config: DebertaV2ForMaskedLM}
for _config, _class in CLASSES.items():
    for _name in ("AutoModelForMaskedLM", "AutoModelForPreTraining"):
        getattr(transformers, _name).register(_config, _class, exist_ok=True)
