"""One of several labels for a text or a pair."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast

from bertcli import number_of, say
from bertcli.data.labelled.examples import Examples, TextExamples
from bertcli.data.labelled.prediction_table import PredictionTable
from bertcli.kinds import types as t
from bertcli.kinds.text import TextKind, fit_logistic, label_names, rounded
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
    evidence_unit = "log-odds"
    example = """shares = np.exp(logits[0]) / np.exp(logits[0]).sum()
print(json.dumps({"label": labels[logits[0].argmax()], "scores": dict(zip(labels, shares.tolist()))}))"""

    def strata(self, examples: Examples) -> list[str] | None:
        return cast(TextExamples, examples).labels

    def labels_of(self, task: Task, examples: Examples) -> Iterable[str]:
        return cast(TextExamples, examples).labels or []

    def with_class_weights(self, task: Task, features: Any) -> Any:
        from bertcli.data.packing.text_features import balanced_weights

        return replace(features, class_weights=balanced_weights(features.labels, len(task.labels)))

    def described(self, task: Task, labels: list[str]) -> str:
        counts = sorted(Counter(labels).values())
        fewest = "" if counts[0] == counts[-1] else f"{counts[0]:,} to "
        return f"{super().described(task, labels)} ({fewest}{number_of(counts[-1], 'row')} each)"

    def label_counts(self, task: Task, features: Any) -> list[str]:
        weights = features.class_weights
        return [
            f"{task.labels[label]} {count:,}" + ("" if weights is None else f" (weight {weights[label]:.3g})")
            for label, count in Counter(features.labels.tolist()).most_common()
        ]

    def fit_head(self, states: t.Floats, targets: t.Labels, outputs: int, strength: float) -> t.LinearHead:
        return fit_logistic(states, targets, outputs, strength)

    def evidence(self, logits: t.Logits, output: int) -> t.Logits:
        others = [index for index in range(logits.shape[1]) if index != output]
        return logits[:, output] - logits[:, others].logsumexp(1)

    def predict(self, labels: tuple[str, ...], logits: t.Floats) -> t.Prediction:
        from scipy.special import softmax

        shares, best = rounded(softmax(logits)), int(logits.argmax())
        return {"label": labels[best], "score": shares[best], "scores": dict(zip(labels, shares, strict=True))}

    def parse(self, task: Task, table: PredictionTable) -> t.Predictions:
        return table.with_score([{"label": label} for label in table.labels(task)])

    def compare(self, task: Task, examples: Examples, predictions: t.Predictions) -> t.Compared:
        compared = super().compare(task, examples, predictions)
        number = {name: index for index, name in enumerate(label_names(task, predictions))}
        compared["predictions"] = [number[label] for label in compared["predictions"]]
        if "f1" in task.metrics and 1 not in {*compared["predictions"], *compared["references"]}:
            say(f"F1 is 0 because no prediction and no label is `{task.labels[1]}`")
        return compared

    def label_scores(self, task: Task, predictions: t.Predictions, compared: t.Compared) -> t.LabelScores:
        import numpy as np

        from bertcli.metrics.counts import label_scores

        names = label_names(task, predictions)
        confusion = np.zeros((len(names), len(names)), dtype=int)
        np.add.at(confusion, (compared["references"], compared["predictions"]), 1)
        return label_scores(self.metric(task).counts(**compared, labels=len(names)), names), confusion.tolist()


CLASSIFICATION = Classification()
