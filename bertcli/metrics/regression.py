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
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # scipy warns of constant input, whose score below is 0
            scores = {
                "spearmanr": spearmanr(references, predictions)[0],
                "pearson": pearsonr(references, predictions)[0],
            }
        return {name: 0.0 if math.isnan(score) else 100 * float(score) for name, score in scores.items()}
