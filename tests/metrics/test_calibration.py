"""Calibration compares what probabilities say with how often they are right."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bertcli.metrics.calibration import calibration

CONFIDENCES = st.lists(st.tuples(st.integers(0, 1000).map(lambda n: n / 1000), st.booleans()), min_size=1, max_size=20)


@given(CONFIDENCES)
@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
def test_the_error_is_that_of_its_definition(confidences: list[tuple[float, bool]]) -> None:
    error, bins = calibration(confidences)
    expected = 0.0
    for low in np.arange(10) / 10:
        inside = [(p, right) for p, right in confidences if int(min(p * 10, 9)) == round(low * 10)]
        if inside:
            gap = np.mean([p for p, _ in inside]) - np.mean([right for _, right in inside])
            expected += len(inside) / len(confidences) * abs(gap)
    assert error == pytest.approx(expected)
    assert sum(each.decisions for each in bins) == len(confidences)


def test_sure_and_right_is_calibrated_and_sure_and_wrong_is_not() -> None:
    assert calibration([(1.0, True)] * 3)[0] == 0
    assert calibration([(1.0, False)] * 3)[0] == 1
