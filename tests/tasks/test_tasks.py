"""Tasks are found by their names."""

import pytest

from bertcli.errors import UserError
from bertcli.tasks import TASKS, get_task


@pytest.mark.parametrize("name", ["glue/sst2", "sst2", "SST-2", "SST2", "glue/SST-2"])
def test_task_names_are_forgiving(name: str) -> None:
    assert get_task(name) is TASKS["glue/sst2"]


def test_an_unknown_task_names_the_nearest() -> None:
    with pytest.raises(UserError) as caught:
        get_task("glue/mlni")
    assert "glue/mnli" in caught.value.hint
