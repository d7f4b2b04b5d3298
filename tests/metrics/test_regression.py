"""Correlations are those of scipy."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import pearsonr, spearmanr

from bertcli.errors import UserError
from bertcli.lifecycle.evaluate import evaluate
from bertcli.metrics.regression import Regression

LABELS = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=40)
VALUES = st.lists(st.tuples(st.integers(-4, 4), st.integers(-4, 4)), min_size=1, max_size=40)


@given(VALUES, st.floats(0.1, 10))
@settings(max_examples=30)
def test_correlations_are_scipys_and_0_where_it_has_none(pairs: list[tuple[int, int]], scale: float) -> None:
    predicted, true = (list(side) for side in zip(*((scale * one, float(two)) for one, two in pairs), strict=True))
    scores = Regression(keep_in_memory=True).compute(predictions=predicted, references=true)
    if len(set(predicted)) == 1 or len(set(true)) == 1:
        assert scores == {"spearmanr": 0, "pearson": 0}
    else:
        assert scores["pearson"] == pytest.approx(100 * pearsonr(predicted, true)[0])
        assert scores["spearmanr"] == pytest.approx(100 * spearmanr(predicted, true)[0])


def test_a_predicted_value_that_is_not_a_number_is_refused(workspace: Path) -> None:
    Path("glue/STS-B").mkdir(parents=True)
    Path("glue/STS-B/dev.tsv").write_text("header\n" + "\t".join("abcdefghi") + "\t2.5\n")
    Path("p.csv").write_text("value\nnan\n")
    with pytest.raises(UserError, match="line 2 has `nan`, which is no number"):
        evaluate("glue/stsb", data_dir=".", predictions="p.csv")
