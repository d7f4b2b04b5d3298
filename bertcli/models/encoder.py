"""A model of any family run over a packed batch, without padding where its family allows."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import count
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence
from torch.utils.checkpoint import checkpoint
from torch.utils.hooks import RemovableHandle
from transformers import PreTrainedModel

from bertcli.data.packing.batches import PackedBatch
from bertcli.data.packing.sequences import LENGTH_STEP, Sequences
from bertcli.errors import UserError
from bertcli.families import family_of
from bertcli.families.family import Family
from bertcli.kernels import attends_alone, chooses_rows
from bertcli.models.dropout import choose_rows, drawn_again, name_rows
from bertcli.models.packed import is_causal, is_joined, is_packed

# T tokens of the batch, N sequences, S the longest, R rows that are read, H hidden

TOKENS_STEP = 64  # idle tokens round the number up: a CPU compiles, and keeps, a program for each shape of a product
NO_END = 1_000_000  # length of the longest input, where positions are relative
BILSTM = "bilstm"  # the module between encoder and head, where there is one (models/own/bilstm.py)
OF_TOKENS = ("logits", "prediction_logits", "start_logits", "end_logits")  # outputs of heads for each token


def in_precision(model: nn.Module, dtype: str) -> torch.autocast:
    """A context that runs a model in a precision, by autocast if its weights have another."""
    weight, wanted = next(model.parameters()), getattr(torch, dtype)
    return torch.autocast(weight.device.type, wanted, enabled=weight.dtype != wanted)


def longest_input(model: PreTrainedModel) -> int:
    """Maximum number of tokens of an input: the positions of the model, or NO_END where they are relative."""
    positions: int = getattr(model.config, "max_position_embeddings", 0)  # -1 in XLNet's
    return positions - _family(model).first_position(model) if positions > 0 else NO_END


def _family(model: PreTrainedModel) -> Family:
    return family_of(model.config.model_type)


def use_gradient_checkpointing(model: PreTrainedModel) -> None:
    """Have the backward pass compute the layers again, which takes less memory than keeping their states.

    The last layer is not computed again: its states are read at once. Raises UserError if the layers cannot do so.
    """
    again = partial(checkpoint, use_reentrant=False, context_fn=drawn_again)
    layers: list[Any] = [each for each in model.base_model.modules() if hasattr(each, "gradient_checkpointing")]
    if not layers or not model.supports_gradient_checkpointing:
        what = f"The layers of this {model.config.model_type} cannot be computed again in the backward pass."
        raise UserError(what, "Leave --gradient-checkpointing out; --micro-batch-tokens saves memory too.")
    for layer in layers:
        layer.gradient_checkpointing, layer._gradient_checkpointing_func = layer is not _last_layer(model), again


def encode(model: PreTrainedModel, batch: PackedBatch, rows: Tensor | None = None) -> Tensor:
    """Run the encoder of a model over a packed batch; return the last hidden states, [T, H], or those in `rows`, [R, H]."""
    if not is_packed(model):
        columns, is_token = _padded(model, batch)
        hidden: Tensor = model.base_model(**columns).last_hidden_state[is_token]
        return hidden if rows is None else hidden[rows]
    with _reading(model, batch, rows):
        hidden = model.base_model(**_packed(model, batch)).last_hidden_state[0]
    return hidden


def encode_layers(model: PreTrainedModel, batch: PackedBatch) -> list[Tensor]:
    """All hidden states, embeddings first, each [T, H]. Raises UserError if a layer does not have one for each token."""
    if is_packed(model):
        states = model.base_model(**_packed(model, batch), output_hidden_states=True).hidden_states
        return [state[0, : len(batch.input_ids)] for state in states]
    columns, is_token = _padded(model, batch)
    states = model.base_model(**columns, output_hidden_states=True).get("hidden_states", ())
    if not states or any(state.shape[:2] != is_token.shape for state in states):
        what = f"Not every layer of this {model.config.model_type} has a hidden state for each token."
        raise UserError(what, "Give another --model, such as a BERT.")
    return [state[is_token] for state in states]


def attention_weights(model: PreTrainedModel, batch: PackedBatch) -> Tensor:
    """Where each token of one sequence attends, by layer and head, [L, A, T, T]; the model computes in transformers' plain way.

    Raises UserError if a model has no such weights.
    """
    if is_joined(model):
        raise UserError("This model joins two encoders, each with attention of its own.", "Give another --model.")
    model.set_attn_implementation("eager")
    found = model.base_model(**_padded(model, batch)[0], output_attentions=True).get("attentions")
    if not found or any(weights.shape[-1] != len(batch.input_ids) for weights in found):
        what = f"A {model.config.model_type} has no attention of every token to every other."
        raise UserError(what, "Give another --model, such as a BERT.")
    return torch.cat(list(found))


def run_head(model: PreTrainedModel, batch: PackedBatch, rows: Tensor | None = None, pooled: bool = False) -> Any:
    """Run a model with its own head over the tokens in `rows`, or over all; return the outputs, such as `logits`.

    They are [R, ...] for tokens, or [N, ...] if `pooled`, the rows being one of each sequence.
    """
    packs = is_packed(model)
    columns, is_token = (_packed(model, batch), 0) if packs else _padded(model, batch)
    if "MultipleChoice" in type(model).__name__:  # expects an axis of choices: one per sequence here
        columns |= {key: columns[key][:, None] for key in columns.keys() - {"position_ids", "sequences", "use_cache"}}
    with _reading(model, batch, rows, pooled) if packs else nullcontext():
        outputs = model(**columns)
    if pooled:
        return outputs
    of_tokens = {name: outputs[name][is_token] for name in OF_TOKENS if name in outputs}
    return of_tokens if packs or rows is None else {name: value[rows] for name, value in of_tokens.items()}


def encode_and_predict(model: PreTrainedModel, batch: PackedBatch) -> tuple[Tensor, Tensor]:
    """The last hidden states, [T, H], and the vocabulary logits, [T, V], of any family with a masked-LM head."""
    kept: list[Tensor] = []
    hook = model.base_model.register_forward_hook(lambda _, __, output: kept.append(output.last_hidden_state))
    try:
        found = run_head(model, batch)
    finally:
        hook.remove()
    logits: Tensor = found["prediction_logits" if "prediction_logits" in found else "logits"]
    if is_packed(model):
        return kept[0][0, : len(batch.input_ids)], logits
    lengths = torch.tensor(batch.lengths, device=kept[0].device)
    return kept[0][torch.arange(batch.lengths[0], device=lengths.device) < lengths[:, None]], logits


@contextmanager
def _reading(model: PreTrainedModel, batch: PackedBatch, rows: Tensor | None, pooled: bool = False) -> Iterator[None]:
    """A context in which the encoder returns the hidden states in `rows` only, [1, R, H], or [N, 1, H] if `pooled`.

    What follows the attention of a last layer like BERT's is computed for those rows only; and if they are one of each
    sequence, which sees all of it, only these attend, where the attention can do so.
    """
    base = model.base_model
    chooses = rows is not None and (getattr(base, "decodes_masks", False) or _last_layer(model) is not None)
    chosen = slice(len(batch.input_ids)) if rows is None else slice(None) if chooses else rows

    def read(_: Any, __: Any, output: Any) -> Any:
        hidden = _read(model, batch, output.last_hidden_state[0], chosen, pooled)
        choose_rows(model, chosen)
        output.last_hidden_state = hidden[:, None] if pooled else hidden[None]
        if output.get("pooler_output") is not None:
            output.pooler_output = _family(model).pool(base, output.last_hidden_state)
        return output

    hooks = [base.register_forward_hook(read), *(_choosing(model, batch, rows, pooled) if chooses else ())]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _choosing(model: PreTrainedModel, batch: PackedBatch, rows: Any, pooled: bool) -> list[RemovableHandle]:
    """The hooks that have the last layer leave out all but some rows."""
    if getattr(model.base_model, "decodes_masks", False):  # in a way of its own (models/own/deberta.py)
        return [_before_call(model.base_model, 1, {"rows": rows})]
    attention = _last_layer(model).attention
    self_attention = getattr(attention, "self", attention)
    is_alone = pooled and attends_alone(self_attention, batch.input_ids)

    def choose(context: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:  # the backward pass of indexing sorts
        choose_rows(model, rows)
        return context if is_alone else context.index_select(1, rows), residual.index_select(1, rows)

    options = {"one_each": rows} if is_alone else {}
    if chooses_rows(attention):
        return [_before_call(attention, _uses_of_last_layer(model), options | {"choose": choose})]
    before = attention.output.register_forward_pre_hook(lambda _, states: choose(*states))
    return [_before_call(self_attention, 1, options), before]


def _before_call(module: nn.Module, number: int, options: dict[str, Any]) -> RemovableHandle:
    """Have a module take more options in its call of this number, counted from 1."""
    calls = count(1)

    def add(_: Any, given: Any, known: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        return given, known | (options if next(calls) == number else {})

    return module.register_forward_pre_hook(add, with_kwargs=True)


def _last_layer(model: PreTrainedModel) -> Any:
    """The last layer of an encoder, if it can leave rows out and the head reads its output; else None."""
    encoder: Any = getattr(model.base_model, "encoder", None)
    groups = getattr(encoder, "albert_layer_groups", None)
    last: Any = groups[-1].albert_layers[-1] if groups else getattr(encoder, "layer", [None])[-1]
    attention = getattr(last, "attention", None)
    return last if (hasattr(attention, "output") or chooses_rows(attention)) and not hasattr(model, BILSTM) else None


def _uses_of_last_layer(model: PreTrainedModel) -> int:
    """How often the weights of the last layer are used in a pass: in ALBERT, by each layer of the last group."""
    layers, groups = model.config.num_hidden_layers, getattr(model.config, "num_hidden_groups", 1)
    return sum(int(layer / (layers / groups)) == groups - 1 for layer in range(layers))


def _read(model: PreTrainedModel, batch: PackedBatch, hidden: Tensor, chosen: Any, pooled: bool) -> Tensor:
    """What a head reads of hidden states, [T, H]: the chosen ones, or if `pooled` both ends of directions that are joined.

    These are the forward direction at each last token, and the backward one at each first, [N, H].
    """
    if has_bilstm := hasattr(model, BILSTM):
        hidden = model.get_submodule(BILSTM)(hidden[: len(batch.input_ids)], batch.lengths)
    if not (pooled and (has_bilstm or is_joined(model))):
        return hidden[chosen]
    forward, backward = hidden.chunk(2, dim=1)
    return torch.cat([forward[batch.last_tokens], backward[batch.first_tokens]], dim=1)


def _packed(model: PreTrainedModel, batch: PackedBatch) -> dict[str, Any]:
    """The inputs end to end, each column [1, T], and the boundaries of the sequences."""
    length_step = LENGTH_STEP if model.dtype == torch.bfloat16 else 1
    idle = -len(batch.input_ids) % _tokens_step(model, len(batch.input_ids))
    if model.training:
        name_rows(batch, pad(torch.ones_like(batch.input_ids, dtype=torch.bool), (0, idle)))
    columns = {**_columns(model, batch), "position_ids": batch.position_ids + _family(model).first_position(model)}
    columns = {name: pad(column, (0, idle))[None] for name, column in columns.items()}
    causal = is_causal(model)
    sequences = Sequences(batch.lengths, idle, batch.input_ids.device, length_step, causal)
    return {**columns, "sequences": sequences, **({"use_cache": False} if causal else {})}


def _tokens_step(model: PreTrainedModel, count: int) -> int:
    """What the number of tokens is rounded up to a multiple of; for predictions it grows by an eighth at most."""
    if model.training:
        return TOKENS_STEP if model.dtype == torch.bfloat16 else 1
    return min(TOKENS_STEP, max(1, (1 << count.bit_length()) // 16))


def _padded(model: PreTrainedModel, batch: PackedBatch) -> tuple[dict[str, Tensor], Tensor]:
    """The inputs with a sequence a row, each column [N, S], and which are tokens, [N, S]; the model makes positions."""
    lengths = torch.tensor(batch.lengths, device=batch.input_ids.device)
    is_token = torch.arange(batch.lengths[0], device=lengths.device) < lengths[:, None]
    if model.training:
        name_rows(batch, is_token)
    padding = {"input_ids": getattr(model.config, "pad_token_id", None) or 0}
    parts = {name: torch.split(column, list(batch.lengths)) for name, column in _columns(model, batch).items()}
    columns = {name: pad_sequence(list(each), True, padding.get(name, 0)) for name, each in parts.items()}
    return {**columns, "attention_mask": is_token.long()}, is_token


def _columns(model: PreTrainedModel, batch: PackedBatch) -> dict[str, Tensor]:
    types = {"token_type_ids": batch.token_type_ids} if _family(model).has_types(model.config) else {}
    return {"input_ids": batch.input_ids, **types}
