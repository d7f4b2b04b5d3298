"""Which of several texts follows (BERT section 4.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, cast

from bertcli import say
from bertcli.data.labelled.examples import Examples
from bertcli.data.labelled.prediction_table import PredictionTable
from bertcli.errors import UserError
from bertcli.kinds import types as t
from bertcli.kinds.kind import Split
from bertcli.kinds.text import TextKind, fit_logistic, rounded
from bertcli.tasks.task import Task


class Choice(TextKind):
    """A pair for each choice, softmax over their scores; scored by accuracy."""

    name = "choose"
    architectures = ("MultipleChoice",)
    pipeline = "multiple-choice"
    metrics = ("accuracy",)
    metric_class = "classification.Classification"
    inputs = ("choices",)
    needs = "a text with choices"
    says = "choice"
    sample: ClassVar[t.Row] = {"text": "She closed the door and", "choices": ["left.", "ate the moon."]}
    example = """shares = np.exp(logits[0]) / np.exp(logits[0]).sum()
print(json.dumps({"choice": int(logits[0].argmax()), "scores": shares.tolist()}))"""
    needs_all_splits = True  # whether choices count from 0 or from 1

    def learn_labels(self, task: Task, labels: list[str]) -> Task:
        count = sum(key.removeprefix("choice").isdigit() for key in task.files.columns)
        numbers, known = _names("0", count), task.files.label_form
        for first in known or "01Aa":
            names = _names(first, count)
            if set(labels) <= set(names):
                say(f"{task.name}: the choices count from {first}")
                return replace(task, labels=numbers, file_labels=names, files=replace(task.files, label_form=first))
        usual = _names(known or "0", count)
        strange = next(label for label in labels if label not in usual)
        what = f"`{task.name}` has the label `{strange}`, which is none of {count} choices."
        raise UserError(what, f"Number them {', '.join(usual)}, or give the column with --label.")

    def described(self, task: Task, labels: list[str]) -> str:
        return f", one of {len(task.labels)}"

    def inputs_of_example(self, task: Task) -> int:
        return len(task.labels)

    def inputs_that_are_cut(self, split: Split, rules: t.Rules) -> tuple[int, str]:
        return len(cast(Any, split.features).sequences.lengths), super().inputs_that_are_cut(split, rules)[1]

    def outputs(self, model: t.Model, batch: t.Batch) -> t.Outputs:
        """Logits of the choices, [E, C]: a dot product of [CLS] with one learnt vector."""
        logits = super().outputs(model, batch)["logits"][:, 0]  # [N]
        return {"logits": logits[batch.labels["choice_sequences"]]}

    def fit_head(self, states: t.Floats, targets: t.Labels, outputs: int, strength: float) -> t.LinearHead:
        """A head with one output for the states of all choices, [E * C, H], of which those of the targets are right."""
        import numpy as np

        is_right = np.arange(states.shape[0] // len(targets)) == targets[:, None]  # [E, C]
        weights, biases = fit_logistic(states, is_right.ravel().astype(int), 2, strength)
        return weights[1:] - weights[:1], biases[1:] - biases[:1]

    def predict(self, labels: tuple[str, ...], logits: t.Floats) -> t.Prediction:
        from scipy.special import softmax

        shares, best = rounded(softmax(logits)), int(logits.argmax())
        return {"choice": best, "score": shares[best], "scores": shares}

    def transformers_call(self, inputs: Sequence[str]) -> str:
        pairs = "['She closed the door and'] * 2, ['left.', 'ate the moon.'], padding=True, return_tensors='pt'"
        return f"model(**{{name: rows[None] for name, rows in tokenizer({pairs}).items()}})[0]"

    def show(self, task: Task, row: t.Row, prediction: t.Prediction, examples: Examples, number: int) -> t.Prediction:
        found, form = prediction["choice"], task.files.label_form
        label = {"label": _names(form, found + 1)[found]} if form not in ("", "0") else {}  # as the run's data count
        return {"choice": found, **label, "text": row["choices"][found], **prediction}

    def parse(self, task: Task, table: PredictionTable) -> t.Predictions:
        task = replace(task, file_labels=()) if table.column == "choice" else task
        return table.with_score([{"choice": task.labels.index(label)} for label in table.labels(task)])


def _names(first: str, count: int) -> tuple[str, ...]:
    """The names of choices that count from a digit or a letter."""
    return tuple(chr(ord(first) + each) if first.isalpha() else str(int(first) + each) for each in range(count))


CHOICE = Choice()
