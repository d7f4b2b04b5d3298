"""Pearson and Spearman correlation, times 100, by scipy."""

from __future__ import annotations

import math
import warnings
from typing import Any

import datasets
import evaluate
from scipy.stats import pearsonr, spearmanr


class Regression(evaluate.Metric):  # type: ignore[misc]
    """Correlations of predicted and true values; 0 where one side is constant and there is none."""

    def _info(self) -> evaluate.MetricInfo:
        number = datasets.Value("float64")
        return evaluate.MetricInfo(
            description=str(self.__doc__),
            citation="",
            inputs_description="Values, predicted and true.",
            features=datasets.Features({"predictions": number, "references": number}),
        )

    def _compute(self, predictions: Any, references: Any) -> dict[str, float]:
        if len(set(predictions)) < 2 or len(set(references)) < 2:
            return {"spearmanr": 0.0, "pearson": 0.0}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # scipy warns of nearly constant input, which has no correlation below
            scores = {
                "spearmanr": spearmanr(references, predictions)[0],
                "pearson": pearsonr(references, predictions)[0],
            }
        return {name: 0.0 if math.isnan(score) else 100 * float(score) for name, score in scores.items()}
