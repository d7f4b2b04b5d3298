"""One of several labels for a text or a pair."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast

from bertcli import say
from bertcli.data.labelled.examples import Examples, TextExamples
from bertcli.data.labelled.own_labels import listed, with_distinct
from bertcli.data.labelled.prediction_table import PredictionTable
from bertcli.kinds.kind import mistake
from bertcli.kinds.text import TextKind, fit_logistic, label_ids, rounded
from bertcli.kinds.types import (
    Compared,
    Floats,
    LabelScores,
    LinearHead,
    Numbers,
    Prediction,
    Predictions,
    Saved,
    Wrong,
)
from bertcli.tasks.task import Task


class Classification(TextKind):
    """Softmax over the labels, cross entropy; scored by accuracy, F1 and Matthews correlation."""

    name = "classify"
    problem_type = "single_label_classification"
    metrics = ("accuracy", "macro_f1")
    metric_class = "classification.Classification"
    has_linear_head = True
    says = "label"
    options = ("class_weights",)
    purpose = "classification"
    names_outputs = True

    def strata(self, examples: Examples) -> list[str] | None:
        return cast(TextExamples, examples).labels

    def labels_of(self, task: Task, examples: Examples) -> Iterable[str]:
        return cast(TextExamples, examples).labels or []

    def learn_labels(self, task: Task, labels: list[str]) -> Task:
        return with_distinct(task, labels)

    def described(self, task: Task) -> str:
        return f", {len(task.labels)} labels{listed(task.labels)}"

    def targets(self, task: Task, examples: TextExamples) -> Numbers | None:
        """The number of each label, [examples]."""
        return label_ids(task, examples)

    def with_class_weights(self, task: Task, features: Any) -> Any:
        from bertcli.data.packing.text_features import balanced_weights

        return replace(features, class_weights=balanced_weights(features.labels, len(task.labels)))

    def label_counts(self, task: Task, features: Any) -> list[str]:
        weights = features.class_weights
        return [
            f"{task.labels[label]} {count:,}" + ("" if weights is None else f" (weight {weights[label]:.3g})")
            for label, count in Counter(features.labels.tolist()).most_common()
        ]

    def fit_head(self, states: Floats, targets: Any, outputs: int, strength: float) -> LinearHead:
        return fit_logistic(states, targets, outputs, strength)

    def has_made(self, saved: Saved) -> bool:
        is_said = saved.problem_type == self.problem_type
        return super().has_made(saved) and (is_said or (saved.problem_type is None and saved.num_labels != 1))

    def predict(self, labels: tuple[str, ...], logits: Floats) -> Prediction:
        from scipy.special import softmax

        shares, best = rounded(softmax(logits)), int(logits.argmax())
        return {"label": labels[best], "score": shares[best], "scores": dict(zip(labels, shares, strict=True))}

    def parse(self, task: Task, table: PredictionTable) -> Predictions:
        return table.with_score([{"label": label} for label in table.labels(task)])

    def compare(self, task: Task, examples: Examples, predictions: Predictions) -> Compared:
        number = {name: index for index, name in enumerate(label_names(task, predictions))}
        references = list(self.targets(task, cast(TextExamples, examples)))  # type: ignore[arg-type]
        answers = [number[each["label"]] for each in predictions]
        if "f1" in task.metrics and 1 not in {*answers, *references}:
            say(f"F1 is 0 because no prediction and no label is `{task.labels[1]}`")
        return {"predictions": answers, "references": references}

    def label_scores(self, task: Task, predictions: Predictions, compared: Compared) -> LabelScores:
        import numpy as np

        from bertcli.metrics.counts import label_scores

        names = label_names(task, predictions)
        confusion = np.zeros((len(names), len(names)), dtype=int)
        np.add.at(confusion, (compared["references"], compared["predictions"]), 1)
        counts = self.metric(task).counts(**compared, labels=len(names))
        return label_scores(counts, names), confusion.tolist()

    def mistake(self, task: Task, choices: list[str], prediction: Prediction, true: Any) -> Wrong:
        is_wrong = prediction["label"] != task.labels[true]
        shown = mistake(prediction, task.labels[true], prediction["label"])
        return prediction.get("score", 0.0) if is_wrong else None, shown


def label_names(task: Task, predictions: Predictions) -> list[str]:
    """The labels of the task, and those that only the model has."""
    given = (label for each in predictions for label in each.get("labels", [each.get("label")]))
    return list(dict.fromkeys([*task.labels, *given]))


CLASSIFICATION = Classification()
