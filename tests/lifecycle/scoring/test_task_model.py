"""A model answers in the precision of the device, but values in float32."""

import pytest

from bertcli.kinds.regression import REGRESSION
from bertcli.lifecycle.scoring.task_model import _precision


@pytest.mark.parametrize("fast", [False, True])
def test_values_are_answered_in_float32_unless_another_precision_is_asked_for(fast: bool) -> None:
    assert _precision(REGRESSION, "auto", 768, fast) == "float32"
    assert _precision(REGRESSION, "bfloat16", 768, fast) == "bfloat16"
