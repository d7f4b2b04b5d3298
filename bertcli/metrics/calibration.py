"""Calibration: whether the probabilities of predictions say how often they are right."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

BINS = 10


class Bin(NamedTuple):
    """Decisions of similar probability."""

    probability: float  # their mean
    right: float  # the share of them that is right
    decisions: int


def calibration(confidences: Sequence[tuple[float, bool]]) -> tuple[float, list[Bin]]:
    """The expected calibration error, from 0 to 1, over ten bins of equal width, and the bins (Guo et al. 2017)."""
    given = np.array([confidence for confidence, _ in confidences])
    right = np.array([is_right for _, is_right in confidences], dtype=float)
    places = np.minimum((given * BINS).astype(int), BINS - 1)
    rows = [places == number for number in range(BINS)]
    bins = [Bin(float(given[row].mean()), float(right[row].mean()), int(row.sum())) for row in rows if row.any()]
    return sum(each.decisions * abs(each.probability - each.right) for each in bins) / len(confidences), bins
