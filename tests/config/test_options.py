"""Options are checked, and taken from Python as from the command line."""

import pytest

from bertcli.config.training import FinetuneConfig
from bertcli.config.use import EvaluateConfig, PredictConfig, ReportConfig
from bertcli.errors import UserError


@pytest.mark.parametrize("config", [FinetuneConfig, EvaluateConfig])
def test_several_files_are_given_as_a_list(config: type[FinetuneConfig | EvaluateConfig]) -> None:
    assert config.build(["train.csv", "dev.csv"], {}).task == "train.csv,dev.csv"
    assert ReportConfig.build(["runs/a", "runs/b"], {}).runs == ["runs/a", "runs/b"]


@pytest.mark.parametrize("options", [{"model": ""}, {"model": [""]}, {"data_dir": ""}])
def test_an_empty_value_is_not_taken_for_none(options: dict[str, object]) -> None:
    with pytest.raises(UserError, match=f"--{min(options).replace('_', '-')} is empty"):
        EvaluateConfig.build("glue/rte", options)
    assert PredictConfig(text="", text_pair="").text_pair == ""  # a text may be


@pytest.mark.parametrize("options", [{"epochs": True}, {"seed": True}, {"text": True}, {"frozen": 1}])
def test_yes_is_no_number_or_text_and_a_number_no_yes(options: dict[str, object]) -> None:
    with pytest.raises(UserError, match=f"--{min(options)} takes"):
        FinetuneConfig.build("own.csv", options)
