"""Any number of labels for a text or a pair."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import chain
from typing import Any, cast

from bertcli import number_of, say
from bertcli.data.labelled.examples import Examples, TextExamples
from bertcli.data.labelled.own_labels import SEPARATORS, split_labels, with_distinct
from bertcli.data.labelled.prediction_table import PredictionTable
from bertcli.errors import UserError
from bertcli.kinds import types as t
from bertcli.kinds.text import TextKind, fit_logistic, label_names, rounded, unknown_label
from bertcli.tasks.task import Task

THRESHOLD = 0.5  # of the probability from which on a label is given


class Multilabel(TextKind):
    """A sigmoid for each label, binary cross entropy; scored by F1 over all decisions."""

    name = "multilabel"
    problem_type = "multi_label_classification"
    metrics = ("micro_f1", "macro_f1", "subset_accuracy")
    metric_class = "classification.MultiLabel"
    has_linear_head = True
    evidence_unit = "log-odds"
    says = "labels"
    names_outputs = True
    example = """shares = 1 / (1 + np.exp(-logits[0]))
print(json.dumps({"scores": dict(zip(labels, shares.tolist()))}))"""

    def labels_of(self, task: Task, examples: Examples) -> Iterable[str]:
        cells = cast(TextExamples, examples).labels or []
        return chain.from_iterable(split_labels(cell, task.files.label_form) for cell in cells)

    def lacks_label(self, label: str) -> bool:
        return False

    def check_labels(self, examples: TextExamples) -> None:
        """Say how many rows have no label. Raises UserError at a list that cannot be read."""
        cells = enumerate(examples.labels or ())
        if without := sum(not split_labels(cell, "", examples.place(row)) for row, cell in cells):
            say(f"{examples.origin}: {number_of(without, 'row')} without a label, taken as texts that no label fits")

    def learn_labels(self, task: Task, labels: list[str]) -> Task:
        found = (mark for mark in SEPARATORS if any(mark in cell for cell in labels if cell[0] != "["))
        separator = task.files.label_form or next(found, "")
        if separator:
            say(f"{task.name}: `{separator}` separates labels")
        several = [label for cell in labels for label in split_labels(cell, separator)]
        if set(several) <= {"0", "1"} and all(cell[0] == "[" for cell in labels):
            what = f"`{task.name}` has lists of 0 and 1 for labels, and not which labels they are."
            raise UserError(what, 'Give those that fit: ["toxic", "insult"]; or a column a label: --label toxic,insult')
        return replace(with_distinct(task, several), files=replace(task.files, label_form=separator))

    def targets(self, task: Task, examples: TextExamples) -> t.Labels | None:
        """Which labels each example has, 0 or 1, [examples, labels]."""
        import numpy as np

        if examples.labels is None:
            return None
        index = {name: number for number, name in enumerate(task.labels)}
        sets = np.zeros((len(examples), len(task.labels)), dtype=np.float32)
        for row, cell in enumerate(examples.labels):
            for label in split_labels(cell, task.files.label_form):
                if label not in index:
                    raise unknown_label(examples.place(row), label, task.labels)
                sets[row, index[label]] = 1
        return sets

    def fit_head(self, states: t.Floats, targets: t.Labels, outputs: int, strength: float) -> t.LinearHead:
        import numpy as np

        columns = [fit_logistic(states, column.astype(int), 2, strength) for column in targets.T]
        weights, biases = (np.stack([part[1] - part[0] for part in parts]) for parts in zip(*columns, strict=True))
        return weights, biases

    def losses(self, outputs: t.Outputs, batch: t.Batch) -> t.Outputs:
        from torch.nn.functional import binary_cross_entropy_with_logits

        logits = outputs["logits"].float()
        total = binary_cross_entropy_with_logits(logits, batch.labels["labels"], reduction="sum")
        return {"loss": total / logits.shape[1]}

    def distance(self, outputs: t.Outputs, taught: t.Outputs, temperature: float) -> t.Logits:
        """The divergence of each label's two shares, summed over the examples, the mean of the labels."""
        import torch

        from bertcli.models.cross_entropy import soft_divergence

        own, theirs = (each["logits"].float().flatten() for each in (outputs, taught))
        shares = [torch.stack([each, torch.zeros_like(each)], 1) for each in (own, theirs)]
        return soft_divergence(shares[0], shares[1], temperature) / outputs["logits"].shape[1]

    def evidence(self, logits: t.Logits, output: int) -> t.Logits:
        return logits[:, output]

    def predict(self, labels: tuple[str, ...], logits: t.Floats) -> t.Prediction:
        from scipy.special import expit

        shares = expit(logits)
        given = [name for name, share in zip(labels, shares, strict=True) if share >= THRESHOLD]
        return {"labels": given, "scores": dict(zip(labels, rounded(shares), strict=True))}

    def parse(self, task: Task, table: PredictionTable) -> t.Predictions:
        separator, place = task.files.label_form, f"`{table.table.path}`"
        several = [split_labels(value, separator, place) for value in table.values]
        known = table.spellings(task, chain.from_iterable(several))
        given = ([table.label(label, known, task, row) for label in labels] for row, labels in enumerate(several))
        return [{"labels": labels, **table.scores(row, task.labels)} for row, labels in enumerate(given)]

    def compare(self, task: Task, examples: Examples, predictions: t.Predictions) -> t.Compared:
        names = label_names(task, predictions)
        true = self.targets(task, cast(TextExamples, examples))
        return {
            "predictions": [[int(name in each["labels"]) for name in names] for each in predictions],
            "references": [[*row, *[0] * (len(names) - len(row))] for row in true],  # type: ignore[union-attr]
        }

    def label_scores(self, task: Task, predictions: t.Predictions, compared: t.Compared) -> t.LabelScores:
        from bertcli.metrics.counts import label_scores

        return label_scores(self.metric(task).counts(**compared), label_names(task, predictions)), []

    def in_words(self, task: Task, compared: t.Compared, metrics: dict[str, float]) -> str:
        return super().in_words(task, compared, metrics).replace("gets", "gets all labels of")

    def confidences(self, task: Task, predictions: t.Predictions, compared: t.Compared) -> t.Confidences:
        answers = zip(predictions, compared["references"], strict=True)
        pairs = (pair for each, row in answers for pair in zip(each.get("scores", {}).values(), row, strict=False))
        return [(max(share, 1 - share), (share >= THRESHOLD) == bool(true)) for share, true in pairs]

    def error_types(self, task: Task, compared: t.Compared) -> dict[str, int]:
        sides = zip(compared["predictions"], compared["references"], strict=True)
        pairs = [pair for given, true in sides for pair in zip(given, map(int, true), strict=True)]
        return {"right": pairs.count((1, 1)), "missed": pairs.count((0, 1)), "given wrongly": pairs.count((1, 0))}

    def mistake(self, names: list[str], prediction: t.Prediction, given: Any, true: Any) -> t.Mistake | None:
        gold = [name for name, has in zip(names, true, strict=True) if has]
        scores, wrong = prediction.get("scores"), set(gold) ^ set(prediction["labels"])
        sure = max(abs((name in gold) - scores.get(name, 0.0)) for name in wrong) if scores and wrong else None
        shown = {"gold": gold, "predicted": prediction["labels"], "probability": sure}
        return (len(wrong) if sure is None else sure, shown) if wrong else None


MULTILABEL = Multilabel()
