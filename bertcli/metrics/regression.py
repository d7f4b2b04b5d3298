"""Pearson and Spearman correlation, times 100, as scipy defines them."""

import math
from typing import Any

import numpy as np

from bertcli.metrics.metric import Array, Metric, Weighted


class Regression(Metric):
    """Correlations of predicted and true values; 0 where one side is constant, for which they are undefined."""

    takes = ("value", "value")

    def weighted(self, predictions: Any, references: Any) -> Weighted:
        values = [np.array(side, dtype=np.float64) for side in (predictions, references)]
        places = [np.unique(side, return_inverse=True)[1] for side in values]

        def scores(weights: Array) -> dict[str, Array]:
            ranks = [[_ranks(side, row) for side in places] for row in weights]
            spearmanr = np.array([_correlation(row, *sides) for sides, row in zip(ranks, weights, strict=True)])
            return {"spearmanr": spearmanr, "pearson": np.array([_correlation(row, *values) for row in weights])}

        return scores


def _ranks(places: Array, weights: Array) -> Array:
    """The rank of each example, by its place among the distinct values; equal values share their mean rank."""
    counts = np.bincount(places, weights)
    return np.asarray((np.cumsum(counts) - counts / 2)[places])


def _correlation(weights: Array, one: Array, two: Array) -> float:
    if any(np.ptp(side[weights > 0]) == 0 for side in (one, two)):
        return 0.0
    one, two = (side - weights @ side / weights.sum() for side in (one, two))
    spread = float(weights @ one**2) * float(weights @ two**2)
    return float(weights @ (one * two)) / math.sqrt(spread) if spread > 0 else 0.0
