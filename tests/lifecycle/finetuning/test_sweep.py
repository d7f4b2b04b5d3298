"""Runs of several settings, and what stops them."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from accelerate import Accelerator

from bertcli.config.training import FinetuneConfig
from bertcli.errors import Interrupted
from bertcli.lifecycle.finetuning.sweep import run_sweep
from bertcli.training.run_folder import RunFolder


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_outside_the_training_ends_a_sweep_with_its_code_and_says_how_to_go_on(
    tmp_path: Path, number: int, code: int
) -> None:
    config, settings = FinetuneConfig(task="glue/rte", seeds=2), [{"seed": 0}, {"seed": 1}]

    def train(*_: Any) -> None:
        os.kill(os.getpid(), number)

    with pytest.raises(Interrupted, match="seed-0: Interrupted") as stopped:
        run_sweep(config, RunFolder(tmp_path / "sweep"), settings, "accuracy", Accelerator(cpu=True), train)
    assert stopped.value.exit_code == code
    assert stopped.value.hint == f"Continue: bert finetune --resume --out {tmp_path}/sweep"
