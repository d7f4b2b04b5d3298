"""A value that is no number is named with its place."""

import pytest

from bertcli.data.labelled.examples import TextExamples
from bertcli.errors import UserError
from bertcli.kinds.regression import REGRESSION
from bertcli.tasks import get_task


@pytest.mark.parametrize("label", ["", "nan", "high", "1e30"])
def test_a_label_of_an_official_file_that_is_no_number_is_named(label: str) -> None:
    examples = TextExamples(["a", "b"], labels=["1.5", label], origin="train.tsv")
    with pytest.raises(UserError, match=rf"`train.tsv` example 2 has the label `{label}`, not a number"):
        REGRESSION.targets(get_task("stsb"), examples)
