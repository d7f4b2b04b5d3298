"""Which of several texts follows (BERT section 4.4)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from bertcli import say
from bertcli.data.labelled.examples import Examples, TextExamples
from bertcli.data.labelled.prediction_table import PredictionTable
from bertcli.errors import UserError
from bertcli.kinds.kind import Encoder, Features, Split, mistake
from bertcli.kinds.text import TextKind, label_ids, rounded
from bertcli.kinds.types import Batch, Floats, Model, Numbers, Outputs, Prediction, Predictions, Row, Rules, Wrong
from bertcli.tasks.task import Task


class Choice(TextKind):
    """A pair for each choice, softmax over their scores; scored by accuracy."""

    name = "choose"
    architectures = ("MultipleChoice",)
    metrics = ("accuracy",)
    metric_class = "classification.Classification"
    inputs = ("choices",)
    needs = "a text with choices"
    says = "choice"
    needs_all_splits = True  # whether choices count from 0 or from 1

    def learn_labels(self, task: Task, labels: list[str]) -> Task:
        count = sum(key.removeprefix("choice").isdigit() for key in task.files.columns)
        numbers = tuple(str(number) for number in range(count + 1))
        letters = tuple("ABCDEFGH"[:count])
        for names in (numbers[:-1], numbers[1:], letters, tuple(letter.lower() for letter in letters)):
            if set(labels) <= set(names):
                say(f"{task.name}: the choices count from {names[0]}")
                return replace(task, labels=numbers[:-1], file_labels=names)
        strange = next(label for label in labels if label not in numbers[:-1])
        what = f"`{task.name}` has the label `{strange}`, which is none of {count} choices."
        raise UserError(what, f"Number them from 0 to {count - 1}, or give the column with --label.")

    def described(self, task: Task) -> str:
        return f", one of {len(task.labels)}"

    def targets(self, task: Task, examples: TextExamples) -> Numbers | None:
        """The number of the right choice, from 0, [examples]."""
        return label_ids(task, examples)

    def encode(self, task: Task, examples: Examples, encoder: Encoder, training: bool = False) -> Features:
        from bertcli.data.packing.choice_features import encode_choices

        texts = cast(TextExamples, examples)
        return encode_choices(texts, encoder.tokenizer, encoder.rules.max_seq_length, self.targets(task, texts))

    def inputs_that_are_cut(self, split: Split, rules: Rules) -> tuple[int, str]:
        return len(cast(Any, split.features).sequences.lengths), super().inputs_that_are_cut(split, rules)[1]

    def outputs(self, model: Model, batch: Batch) -> Outputs:
        """Logits of the choices, [E, C]: a dot product of [CLS] with one learnt vector."""
        logits = super().outputs(model, batch)["logits"][:, 0]  # [N]
        return {"logits": logits[batch.labels["choice_sequences"]]}

    def predict(self, labels: tuple[str, ...], logits: Floats) -> Prediction:
        from scipy.special import softmax

        shares, best = rounded(softmax(logits)), int(logits.argmax())
        return {"choice": best, "score": shares[best], "scores": shares}

    def show(self, row: Row, prediction: Prediction, examples: Examples, number: int) -> Prediction:
        return {"choice": prediction["choice"], "text": row["choices"][prediction["choice"]], **prediction}

    def parse(self, task: Task, table: PredictionTable) -> Predictions:
        task = replace(task, file_labels=()) if table.column == "choice" else task
        return table.with_score([{"choice": task.labels.index(label)} for label in table.labels(task)])

    def mistake(self, task: Task, choices: list[str], prediction: Prediction, true: Any) -> Wrong:
        is_wrong = prediction["choice"] != true
        shown = mistake(prediction, choices[true], choices[prediction["choice"]])
        return prediction.get("score", 0.0) if is_wrong else None, shown


CHOICE = Choice()
