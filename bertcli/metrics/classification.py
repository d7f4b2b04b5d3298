"""Accuracy, F1 and Matthews correlation, times 100, by scikit-learn."""

from __future__ import annotations

import warnings
from typing import Any

import datasets
import evaluate
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef


class Classification(evaluate.Metric):  # type: ignore[misc]
    """Scores of predicted label numbers; `f1` is of label 1 and only given for two labels."""

    def _info(self) -> evaluate.MetricInfo:
        number = datasets.Value("int64")
        return evaluate.MetricInfo(
            description=str(self.__doc__),
            citation="",
            inputs_description="Label numbers, predicted and true.",
            features=datasets.Features({"predictions": number, "references": number}),
        )

    def _compute(self, predictions: Any, references: Any) -> dict[str, float]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # scikit-learn warns of one class only, whose Matthews correlation is 0
            scores = {
                "accuracy": accuracy_score(references, predictions),
                "macro_f1": f1_score(references, predictions, average="macro", zero_division=0),
                "matthews_correlation": matthews_corrcoef(references, predictions),
            }
        if set(references) | set(predictions) <= {0, 1}:
            scores["f1"] = f1_score(references, predictions, zero_division=0)
        return {name: 100 * float(score) for name, score in scores.items()}
