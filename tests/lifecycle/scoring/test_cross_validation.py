"""A head is cross-validated on texts that it has not seen."""

import numpy as np
import pytest

from bertcli.data.labelled.examples import TextExamples
from bertcli.lifecycle.scoring.cross_validation import FOLDS, folds


@pytest.mark.parametrize("targets", [np.array([0, 1] * 20), np.linspace(0, 1, 40)], ids=["labels", "values"])
def test_the_same_text_is_never_both_fitted_to_and_left(targets: np.ndarray) -> None:
    texts = [f"text {number % 10}" for number in range(40)]
    parts = list(folds(targets, TextExamples(texts=texts, origin="rows.csv")))
    assert len(parts) == FOLDS
    assert sorted(row for _, left in parts for row in left) == list(range(40))
    for fitted, left in parts:
        assert not {texts[row] for row in fitted} & {texts[row] for row in left}


def test_fewer_texts_than_parts_are_split_as_they_are() -> None:
    parts = folds(np.array([0, 1] * 10), TextExamples(texts=["the same"] * 20, origin="rows.csv"))
    assert all(len(left) == 20 // FOLDS for _, left in parts)
