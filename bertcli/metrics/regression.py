"""Pearson and Spearman correlation, times 100, as scipy defines them."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertcli.metrics.metric import Metric, Weighted


class Regression(Metric):
    """Correlations of predicted and true values; 0 where one side is constant and there is none."""

    takes = ("value", "value")

    def weighted(self, predictions: Any, references: Any) -> Weighted:
        values = [np.array(side, dtype=np.float64) for side in (predictions, references)]
        places = [np.unique(side, return_inverse=True)[1] for side in values]

        def scores(weights: NDArray[Any]) -> dict[str, NDArray[Any]]:
            ranks = ([_ranks(side, row) for side in places] for row in weights)
            return {
                "spearmanr": np.array([_correlation(row, *sides) for sides, row in zip(ranks, weights, strict=True)]),
                "pearson": np.array([_correlation(row, *values) for row in weights]),
            }

        return scores


def _ranks(places: NDArray[Any], weights: NDArray[Any]) -> NDArray[Any]:
    """The rank of each example, by its place among the distinct values; equal ones share the mean of theirs."""
    counts = np.bincount(places, weights)
    ranks: NDArray[Any] = (np.cumsum(counts) - counts / 2)[places]
    return ranks


def _correlation(weights: NDArray[Any], one: NDArray[Any], two: NDArray[Any]) -> float:
    if any(np.ptp(side[weights > 0]) == 0 for side in (one, two)):
        return 0.0
    one, two = (side - weights @ side / weights.sum() for side in (one, two))
    spread = float(weights @ one**2) * float(weights @ two**2)
    return float(weights @ (one * two)) / math.sqrt(spread) if spread > 0 else 0.0
