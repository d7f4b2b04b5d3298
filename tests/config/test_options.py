"""Options are checked, and taken from Python as from the command line."""

import pytest

from bertcli.config.training import FinetuneConfig
from bertcli.config.use import EvaluateConfig, ReportConfig


@pytest.mark.parametrize("config", [FinetuneConfig, EvaluateConfig])
def test_several_files_are_given_as_a_list(config: type[FinetuneConfig | EvaluateConfig]) -> None:
    assert config.build(["train.csv", "dev.csv"], {}).task == "train.csv,dev.csv"
    assert ReportConfig.build(["runs/a", "runs/b"], {}).runs == ["runs/a", "runs/b"]
