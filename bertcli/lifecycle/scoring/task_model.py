"""A fine-tuned model, ready to be run on the examples of a task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch

from bertcli import say
from bertcli.config.training import WINDOWS
from bertcli.data.packing.windows import WindowRules
from bertcli.data.text.tokenization import WordPiece, load_tokenizer
from bertcli.kinds import KINDS
from bertcli.kinds.kind import Encoder, Kind, Split
from bertcli.kinds.types import Prediction, Row
from bertcli.lifecycle.scoring.model_labels import model_labels, not_of_kind
from bertcli.lifecycle.sources import Lost, describe_split, encode_split, input_task, lost_in
from bertcli.lifecycle.workspace import saved_config
from bertcli.models.encoder import longest_input
from bertcli.models.loading import check_length, check_vocabulary, open_config
from bertcli.models.model_with_loss import ModelWithLoss, run_model
from bertcli.tasks.task import Task
from bertcli.training import device as devices
from bertcli.training.progress import Progress

if TYPE_CHECKING:
    from bertcli.kinds.types import Features, ModelOutputs

MANY_TOKENS = 100_000  # of which the progress is shown


@dataclass(frozen=True)
class TaskModel:
    """A model with its task, tokenizer and device."""

    task: Task
    kind: Kind
    model: ModelWithLoss
    tokenizer: WordPiece
    rules: WindowRules
    device: torch.device
    dtype: str = "float32"

    @property
    def longest(self) -> int:
        """Tokens of the longest input that the model takes."""
        return longest_input(self.model.model)

    def predict(self, split: Split) -> list[Prediction]:
        """One prediction per example, in input order; encodes the split if needed."""
        if split.features is None:
            split = encode_split(self.task, split, self.tokenizer, self.rules)
            say(describe_split(split, [lost_in(self.task, split, self.rules, self.tokenizer)]))
        assert split.features is not None
        return self.kind.decode(self.task, split, self.outputs(split.features), self.tokenizer)

    def outputs(self, features: Features) -> ModelOutputs:
        """Each output of the head as arrays, in the order of the rows of the features."""
        tokens = min(devices.inference_tokens(), self.kind.tokens_at_once or devices.inference_tokens())
        run = partial(run_model, self.model, features, self.device, tokens, self.dtype)
        if (of_all := float(np.sum(np.asarray(features.lengths)))) < MANY_TOKENS:
            return run()
        with Progress("predicting", of_all, "tokens") as progress:
            return run(progress.advance)

    def predict_part(self, split: Split) -> tuple[list[Prediction], Lost]:
        """The same for a part of a split, whose labels the model may not know, and what of it is not read; says nothing."""
        inputs = replace(split, examples=split.examples.without_answers())
        part = encode_split(self.task, inputs, self.tokenizer, self.rules)
        return self.predict(part), lost_in(self.task, part, self.rules, self.tokenizer)

    def predict_rows(self, rows: Sequence[Row]) -> tuple[list[Prediction], Lost]:
        """What `bert predict` shows of each row, and what of them is not read; the rows have the same columns."""
        split = self._encoded(rows)
        predictions = enumerate(self.predict(split))
        shown = [self.kind.show(self.task, rows[number], each, split.examples, number) for number, each in predictions]
        return shown, lost_in(self.task, split, self.rules, self.tokenizer)

    def check_input(self, row: Row, file: str | None) -> None:
        """Check a row given to `bert predict`. Raises UserError if the model cannot take it."""
        self.kind.check_input(row, self.tokenizer, self.longest, file)

    def words_for_cut(self) -> str:
        """What is said of inputs that were cut."""
        longest = self.rules.limit_in_words if self.rules.in_windows else "the model takes"
        return f"longer than {longest}, cut"

    def count_cut(self, rows: Sequence[Row]) -> int:
        """How many inputs of rows are longer than the model takes."""
        return cast("Features", self._encoded(rows).features).truncated

    def _encoded(self, rows: Sequence[Row]) -> Split:
        examples = self.kind.input_examples(rows, self.tokenizer)
        return Split("input", examples, self.kind.encode(self.task, examples, Encoder(self.tokenizer, self.rules)))


def load_for_rows(source: str, kind: Kind, precision: str, top_k: int, has_gradients: bool = False) -> TaskModel:
    """Load a model of any kind to predict rows, as `bert predict` does; prepacked weights have no gradients."""
    task = input_task(source, kind)
    if has_gradients:
        return load_task_model(task, source, "float32")
    return load_task_model(task, source, precision, fast=kind.is_task, top_k=top_k)


def load_task_model(task: Task, source: str, precision: str, fast: bool = False, top_k: int | None = None) -> TaskModel:
    """Load a fine-tuned model with the labels and their order from the model, and the lengths from its run.

    With `fast`, a CPU multiplies prepacked weights, in bfloat16 where it can and the kind allows, which changes scores a bit. Raises UserError
    if the model is of another kind, or has other labels.
    """
    devices.keep_freed_memory()
    kind = KINDS[task.kind]
    config = open_config(source)
    if not kind.has_made(config):
        raise not_of_kind(source, config.architectures or [], task)
    model = kind.load_model(source)
    if kind.names_outputs:
        task = replace(task, labels=model_labels(model.config.id2label, task, source))
    tokenizer, saved = load_tokenizer(source), saved_config(source)
    rules = _rules(kind, saved, min(task.max_seq_length if task.hub[0] else kind.max_seq_length, longest_input(model)))
    check_vocabulary(model, tokenizer, source)
    check_length(model, rules.max_seq_length)
    device = devices.inference_device()
    dtype = _precision(kind, precision, model.config.hidden_size, fast)
    kind = kind.for_prediction(top_k, tokenizer.size) if top_k else kind
    with_loss = kind.with_loss(model).to_predict(device, dtype, reorders=fast)
    return TaskModel(task, kind, with_loss, tokenizer, rules, device, dtype)


def _precision(kind: Kind, asked: str, hidden: int, fast: bool) -> str:
    """The precision that is asked for, or for "auto" that of the device, but for kinds that need float32."""
    if kind.needs_float32 and asked == "auto":
        return "float32"
    return devices.training_precision(asked, hidden) if fast else devices.resolve_precision(asked)


def _rules(kind: Kind, saved: dict[str, Any], max_seq_length: int) -> WindowRules:
    """The lengths that a run was trained with, or for another model the usual ones."""
    longest_query = kind.max_query_length and (saved.get("max_query_length") or kind.max_query_length)
    longest, in_windows = saved.get("max_seq_length") or max_seq_length, saved.get("long_texts") == WINDOWS
    longest_answer = saved.get("max_answer_length") or WindowRules.max_answer_length
    return WindowRules(longest, saved.get("doc_stride") or 128, longest_query, in_windows, longest_answer)
