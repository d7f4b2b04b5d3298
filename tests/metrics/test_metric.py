"""Intervals of scores, by the bootstrap."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from bertcli.metrics.metric import confidence_interval, interval_of_score


@given(st.integers(1, 10_000))
def test_where_all_examples_are_right_the_interval_is_that_of_a_binomial_share(examples: int) -> None:
    low, high = interval_of_score(np.full(1000, 100.0), examples)
    exact = binomtest(examples, examples).proportion_ci(0.95, method="exact")
    assert (low, high) == pytest.approx((100 * exact.low, 100.0), abs=1e-5)


@given(st.integers(1, 10_000))
def test_where_none_is_right_too_but_a_correlation_of_0_stays_as_it_is(examples: int) -> None:
    low, high = interval_of_score(np.zeros(1000), examples)
    exact = binomtest(0, examples).proportion_ci(0.95, method="exact")
    assert (low, high) == pytest.approx((0.0, 100 * exact.high), abs=1e-5)
    assert interval_of_score(np.zeros(1000), examples, is_share=False) == [0.0, 0.0]


def test_other_intervals_are_the_middle_of_the_resampled_scores() -> None:
    scores = np.linspace(50, 100, 1000)
    assert interval_of_score(scores, 10) == confidence_interval(scores)
