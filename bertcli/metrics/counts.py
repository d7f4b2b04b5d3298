"""Counts of right, predicted and true labels, from which precision, recall and F1 are computed."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

Array = NDArray[Any]
SIDES = 3  # right, predicted, true
Example = Sequence[Sequence[int]]  # label ids that are right, predicted and true


def count_labels(examples: Iterable[Example], labels: int) -> csr_array:
    """The counts of each example, [examples, 3 x labels]; a label may occur more than once."""
    columns: list[int] = []
    ends = [0]
    for sides in examples:
        columns += [side * labels + label for side, given in enumerate(sides) for label in given]
        ends.append(len(columns))
    return csr_array((np.ones(len(columns)), columns, ends), shape=(len(ends) - 1, SIDES * labels))


def add_up(counts: csr_array, weights: Array) -> Array:
    """Right, predicted and true, [3, resamples, labels], of weighted examples, [resamples, examples]."""
    return np.asarray(weights @ counts).reshape(len(weights), SIDES, counts.shape[1] // SIDES).swapaxes(0, 1)


def precision_of(right: Array, predicted: Array) -> Array:
    """The proportion of predicted that is right; 0 where nothing is predicted. Of what is true, it is the recall."""
    return np.asarray(right / np.maximum(predicted, 1))


def f1_of(right: Array, predicted: Array, true: Array) -> Array:
    """The harmonic mean of precision and recall; 0 where nothing was predicted and nothing is true."""
    return np.asarray(2 * right / np.maximum(predicted + true, 1))


def macro_f1_of(right: Array, predicted: Array, true: Array) -> Array:
    """The mean F1 of the labels that are predicted or true, [resamples], of [resamples, labels]."""
    return np.asarray(f1_of(right, predicted, true).sum(-1) / (predicted + true > 0).sum(-1))


def label_scores(counts: csr_array, names: Sequence[str]) -> dict[str, dict[str, float]]:
    """Precision, recall and F1 of each label, times 100, and its support: how often it is true."""
    right, predicted, true = add_up(counts, np.ones((1, counts.shape[0])))[:, 0]
    scores = {"precision": 100 * precision_of(right, predicted), "recall": 100 * precision_of(right, true)}
    scores["f1"] = 100 * f1_of(right, predicted, true)
    return {
        name: {key: round(float(values[label]), 6) for key, values in scores.items()} | {"support": int(true[label])}
        for label, name in enumerate(names)
    }
