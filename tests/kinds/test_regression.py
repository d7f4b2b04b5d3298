"""A value that is no number is named with its place."""

import pytest

from bertcli.data.labelled.examples import TextExamples
from bertcli.errors import UserError
from bertcli.kinds.regression import REGRESSION
from bertcli.tasks import get_task


@pytest.mark.parametrize(
    ("error", "words"), [(10241.99, "10,300"), (0.0123, "0.0123"), (0.01231, "0.0124"), (1234567.0, "1,240,000")]
)
def test_half_of_the_values_are_no_further_away_than_is_said_without_an_exponent(error: float, words: str) -> None:
    compared = {"references": [0.0] * 3, "predictions": [0.0, error, -2 * error]}
    assert f"is at most {words} away" in REGRESSION.in_words(get_task("stsb"), compared, {})


@pytest.mark.parametrize("label", ["", "nan", "high", "1e30"])
def test_a_label_of_an_official_file_that_is_no_number_is_named(label: str) -> None:
    examples = TextExamples(["a", "b"], labels=["1.5", label], origin="train.tsv")
    with pytest.raises(UserError, match=rf"`train.tsv` example 2 has the label `{label}`, not a number"):
        REGRESSION.targets(get_task("stsb"), examples)
