"""The interval of a difference covers the seeds of pre-training and those of fine-tuning."""

from pathlib import Path

import numpy as np
import pytest

from bertcli.lifecycle.reproducing.scores import Cell, Comparisons
from bertcli.tasks.experiments import EXPERIMENTS
from bertcli.tasks.experiments.experiment import Column


@pytest.mark.parametrize(("seeds", "spread"), [(1, 5 / 6**0.5), (3, 5 / 2**0.5)])
def test_fine_tunings_of_one_pre_training_are_drawn_with_it(tmp_path: Path, seeds: int, spread: float) -> None:
    column = Column("", "glue/rte", "accuracy", split="test")
    own = Cell("own", column.head, [10.0, 10.0, 10.0, 20.0, 20.0, 20.0], None)
    other = Cell("other", column.head, [0.0] * 6, None)
    parts = {(each.row, column.head): [f"{each.row}-{number}" for number in range(6)] for each in (own, other)}
    drawn = Comparisons(EXPERIMENTS["table-5"], tmp_path, {}, parts, seeds)._differences(own, other, column)
    assert drawn is not None
    assert float(np.mean(drawn)) == pytest.approx(15, abs=0.5)
    assert float(np.std(drawn)) == pytest.approx(spread, rel=0.1)  # two pre-trainings, or six that are independent
