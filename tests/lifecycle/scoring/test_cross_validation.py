"""A head is cross-validated on texts that it has not seen."""

import numpy as np
import pytest

from bertcli.data.labelled.examples import TextExamples, text_examples
from bertcli.lifecycle.scoring.cross_validation import (
    FOLDS,
    choose_and_cross_validate,
    cross_validate,
    fit_and_predict,
    folds,
    targets_of,
)
from bertcli.tasks.task import Files, Task


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


def test_no_example_chooses_the_strength_that_it_is_predicted_with() -> None:
    drawn = np.random.default_rng(3)
    task = Task("noise", "classify", Files(), ("", None), ("accuracy",), labels=("no", "yes"))
    labels = drawn.permutation([0, 1] * 20)
    named = {"text": [f"text {row}" for row in range(40)], "label": [task.labels[each] for each in labels]}
    examples, states, strengths = text_examples(named, ""), drawn.normal(size=(40, 6)), (1e-3, 1e-1, 1.0, 1e3)
    best, chosen = choose_and_cross_validate(task, examples, states, strengths)
    targets = targets_of(task, examples)
    alone = {
        strength: cross_validate(
            task,
            examples,
            lambda fitted, left, strength=strength: fit_and_predict(
                task, states[fitted], targets[fitted], states[left], strength
            ),
        )
        for strength in strengths
    }
    is_right = {each: np.array([own["label"] for own in alone[each]]) == examples.labels for each in strengths}
    assert is_right[best].sum() == max(map(np.sum, is_right.values()))
    of_folds = set()
    for others, left in folds(labels, examples):
        own = max(strengths, key=lambda each: is_right[each][others].mean())
        of_folds.add(own)
        assert [chosen[row] for row in left] == [alone[own][row] for row in left]
    assert len(of_folds) > 1  # so the test can tell
