"""A baseline, ready to be run on the examples of a task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Self, cast

from bertcli import say
from bertcli.errors import UserError
from bertcli.kinds import KINDS
from bertcli.kinds.kind import Kind, Split
from bertcli.kinds.types import Prediction, Row
from bertcli.lifecycle.baselining.description import description_of
from bertcli.lifecycle.baselining.methods.method import Baseline
from bertcli.lifecycle.baselining.methods.words import word_places
from bertcli.lifecycle.baselining.saving import load_baseline
from bertcli.lifecycle.scoring.model_labels import how_to_make, model_labels
from bertcli.lifecycle.sources import Lost, size_of
from bertcli.tasks.task import Task


class _Encoding(NamedTuple):
    """The words of a text as a tokenizer gives them: the number of each, and its start and end."""

    word_ids: list[int]
    offsets: list[tuple[int, int]]


class _Words:
    """What the kinds need of a tokenizer to find the words of a text."""

    def encode(self, texts: Sequence[str]) -> list[_Encoding]:
        return [_Encoding(list(range(len(places))), places) for places in map(word_places, texts)]


@dataclass(frozen=True)
class BaselineModel:
    """A baseline with its task, as `TaskModel` is a model with its task."""

    task: Task
    kind: Kind
    baseline: Baseline

    @classmethod
    def load(cls, source: str, task: Task) -> Self:
        """Load a baseline with the labels and their order from its folder. Raises UserError if it is of another kind or has other labels."""
        found = description_of(Path(source))
        if task.kind != found.kind:
            what = f"The baseline `{source}` is of the kind `{found.kind}`, not `{task.kind}`."
            raise UserError(what, how_to_make(task))
        kind = KINDS[task.kind]
        if kind.names_outputs:
            task = replace(task, labels=model_labels(found.labels, task, source))
        return cls(task, kind, load_baseline(Path(source), task))

    def predict(self, split: Split) -> list[Prediction]:
        """One prediction per example, in input order."""
        say(size_of(split))
        return self.baseline.predict(self.task, split.examples)

    def predict_part(self, split: Split) -> tuple[list[Prediction], Lost]:
        """The same for a part of a split; nothing is cut."""
        return self.baseline.predict(self.task, split.examples), Lost(0, len(split), "")

    def predict_rows(self, rows: Sequence[Row]) -> tuple[list[Prediction], Lost]:
        """What `bert predict` shows of each row; nothing is cut."""
        examples = self.kind.input_examples(rows, cast(Any, _Words()))
        predictions = enumerate(self.baseline.predict(self.task, examples))
        shown = [self.kind.show(self.task, rows[number], each, examples, number) for number, each in predictions]
        return shown, Lost(0, len(rows), "")

    def check_input(self, row: Row, file: str | None) -> None:
        """Any text will do."""

    def words_for_cut(self) -> str:
        """What is said of inputs that were cut, of which there are none."""
        return ""
