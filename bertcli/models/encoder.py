"""A model of any family run over a packed batch: on real tokens only where its attention is ours, else padded."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel

from bertcli.data.packing.batches import PackedBatch
from bertcli.data.packing.sequences import LENGTH_STEP, Sequences
from bertcli.errors import UserError
from bertcli.kernels import attends_alone
from bertcli.models.packed import is_packed

# T tokens of the batch, N sequences, S the longest, R rows that are read, H hidden

# The families whose layers ask transformers' interface for plain attention over the whole sequence.
PACKED_FAMILIES = (
    "bert",
    "roberta",
    "roberta-prelayernorm",
    "xlm-roberta",
    "xlm-roberta-xl",
    "camembert",
    "data2vec-text",
    "electra",
    "distilbert",
    "albert",
    "ernie",
)
TOKENS_STEP = 64  # a CPU makes a program for each new shape of a bfloat16 product: idle tokens round their number up
NO_END = 1_000_000  # tokens of an input, where positions are relative
OF_TOKENS = ("logits", "prediction_logits", "start_logits", "end_logits")  # what heads say of each token


def in_precision(model: nn.Module, dtype: str) -> torch.autocast:
    """Within it, a model is run in a precision, which is cast to where its weights have another."""
    weight, wanted = next(model.parameters()), getattr(torch, dtype)
    return torch.autocast(weight.device.type, wanted, enabled=weight.dtype != wanted)


def first_position(model: PreTrainedModel) -> int:
    """The position id of the first token: RoBERTa and its kin keep those up to the padding's for themselves."""
    table = getattr(getattr(model.base_model, "embeddings", None), "position_embeddings", None)
    padding: int | None = getattr(table, "padding_idx", None)
    return 0 if padding is None else padding + 1


def longest_input(model: PreTrainedModel) -> int:
    """Tokens that a model has positions for; relative ones may have no end."""
    positions: int = getattr(model.config, "max_position_embeddings", 0)  # -1 in XLNet's
    return positions - first_position(model) if positions > 0 else NO_END


def encode(model: PreTrainedModel, batch: PackedBatch, rows: Tensor | None = None) -> Tensor:
    """Run the encoder of a model over a packed batch; return the last hidden states, [T, H], or the rows read, [R, H]."""
    if not is_packed(model):
        columns, there = _padded(model, batch)
        hidden: Tensor = model.base_model(**columns).last_hidden_state[there]
        return hidden if rows is None else hidden[rows]
    with _reading(model, batch, rows):
        hidden = model.base_model(**_packed(model, batch)).last_hidden_state[0]
    return hidden


def encode_layers(model: PreTrainedModel, batch: PackedBatch) -> list[Tensor]:
    """The same with every hidden state: the embeddings, then what each layer makes of them, each [T, H].

    Raises:
        UserError: if the layers of the family do not have one of each token.
    """
    if not is_packed(model):
        columns, there = _padded(model, batch)
        states = model.base_model(**columns, output_hidden_states=True).get("hidden_states", ())
        if not states or any(state.shape[:2] != there.shape for state in states):
            raise UserError(
                f"Not every layer of a {model.config.model_type} has a hidden state of each token.",
                "Give another --model, such as a BERT.",
            )
        return [state[there] for state in states]
    states = model.base_model(**_packed(model, batch), output_hidden_states=True).hidden_states
    return [state[0, : len(batch.input_ids)] for state in states]


def run_head(model: PreTrainedModel, batch: PackedBatch, rows: Tensor | None = None, pooled: bool = False) -> Any:
    """Run a model with its own head over the tokens in `rows`, or over all.

    Returns:
        What the head gives, such as `logits`: [R, ...] of each token, or [N, ...] where `pooled`, the rows being [CLS].
    """
    packs = is_packed(model)
    columns, there = (_packed(model, batch), 0) if packs else _padded(model, batch)
    if "MultipleChoice" in type(model).__name__:  # takes choices as an axis: one a sequence here
        columns |= {name: columns[name][:, None] for name in columns.keys() - {"position_ids", "sequences"}}
    with _reading(model, batch, rows, pooled) if packs else nullcontext():
        outputs = model(**columns)
    if pooled:
        return outputs
    of_tokens = {name: outputs[name][there] for name in OF_TOKENS if name in outputs}
    return of_tokens if packs or rows is None else {name: value[rows] for name, value in of_tokens.items()}


@contextmanager
def _reading(model: PreTrainedModel, batch: PackedBatch, rows: Tensor | None, pooled: bool = False) -> Iterator[None]:
    """Within it, the encoder gives the hidden states of the rows only, [1, R, H], or [N, 1, H] where `pooled`.

    After its attention, the last layer is run for those rows only where it can be told to: nothing else reads the others;
    where they are the first tokens, these may alone attend.
    """
    base = model.base_model
    last: Any = getattr(getattr(base, "encoder", None), "layer", [None])[-1]
    is_early = rows is not None and hasattr(last, "attention") and hasattr(last.attention, "output")
    chosen = slice(len(batch.input_ids)) if rows is None else slice(None) if is_early else rows

    def read(_: Any, __: Any, output: Any) -> Any:
        hidden = output.last_hidden_state[0, chosen]
        output.last_hidden_state = hidden[:, None] if pooled else hidden[None]
        if output.get("pooler_output") is not None:
            activation = getattr(base, "pooler_activation", None)  # ALBERT's pooler is the product alone
            first = output.last_hidden_state
            output.pooler_output = base.pooler(first) if activation is None else activation(base.pooler(first[:, 0]))
        return output

    hooks = [base.register_forward_hook(read)]
    if is_early:
        attention = last.attention
        is_first = pooled and attends_alone(attention.self, batch.input_ids)
        if is_first:
            told = {"first_tokens": rows}
            hooks.append(attention.self.register_forward_pre_hook(lambda _, a, b: (a, b | told), with_kwargs=True))
        hooks.append(
            attention.output.register_forward_pre_hook(
                lambda _, states: (states[0] if is_first else _chosen(states[0], rows), _chosen(states[1], rows))
            )
        )
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _chosen(states: Tensor, rows: Tensor | None) -> Tensor:
    """Rows of [1, T, H], or all; the way back of an index would sort them first."""
    return states if rows is None else states.index_select(1, rows)


def _packed(model: PreTrainedModel, batch: PackedBatch) -> dict[str, Any]:
    """The sequences end to end, each column [1, T], and how they attend."""
    tokens_step, length_step = (TOKENS_STEP, LENGTH_STEP) if model.dtype == torch.bfloat16 else (1, 1)
    idle = -len(batch.input_ids) % tokens_step
    columns = {name: pad(column, (0, idle))[None] for name, column in _columns(model, batch).items()}
    return {**columns, "sequences": Sequences(batch.lengths, idle, batch.input_ids.device, length_step)}


def _padded(model: PreTrainedModel, batch: PackedBatch) -> tuple[dict[str, Tensor], Tensor]:
    """A sequence a row, each column [N, S], and where there are tokens."""
    lengths = torch.tensor(batch.lengths, device=batch.input_ids.device)
    there = torch.arange(batch.lengths[0], device=lengths.device) < lengths[:, None]
    filler = {"input_ids": getattr(model.config, "pad_token_id", None) or 0}
    columns = {
        name: pad_sequence(list(torch.split(column, list(batch.lengths))), True, filler.get(name, 0))
        for name, column in _columns(model, batch).items()
        if name != "position_ids"  # which such families make themselves, where they have any
    }
    return {**columns, "attention_mask": there.long()}, there


def _columns(model: PreTrainedModel, batch: PackedBatch) -> dict[str, Tensor]:
    columns = {"input_ids": batch.input_ids, "position_ids": batch.position_ids + first_position(model)}
    if getattr(model.config, "type_vocab_size", 0) > 1:
        columns["token_type_ids"] = batch.token_type_ids
    return columns
