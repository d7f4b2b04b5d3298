"""F1 of examples that may have several labels, times 100, by scikit-learn."""

from __future__ import annotations

from typing import Any

import datasets
import evaluate
from sklearn.metrics import accuracy_score, f1_score


class MultiLabel(evaluate.Metric):  # type: ignore[misc]
    """F1 over all decisions, its mean over labels, and the share of examples with all labels right."""

    def _info(self) -> evaluate.MetricInfo:
        numbers = datasets.Sequence(datasets.Value("int64"))
        return evaluate.MetricInfo(
            description=str(self.__doc__),
            citation="",
            inputs_description="For each example 0 or 1 a label, predicted and true.",
            features=datasets.Features({"predictions": numbers, "references": numbers}),
        )

    def _compute(self, predictions: Any, references: Any) -> dict[str, float]:
        scores = {
            "micro_f1": f1_score(references, predictions, average="micro", zero_division=0),
            "macro_f1": f1_score(references, predictions, average="macro", zero_division=0),
            "subset_accuracy": accuracy_score(references, predictions),
        }
        return {name: 100 * float(score) for name, score in scores.items()}
