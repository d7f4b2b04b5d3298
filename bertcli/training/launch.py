"""The same command in several processes, one a device, through Accelerate's launcher."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import yaml

from bertcli.config import TrainingConfig
from bertcli.errors import Interrupted, RunError, UserError
from bertcli.training.result import TrainingResult


def is_launched() -> bool:
    """Whether this process is one of several that share a run."""
    return "LOCAL_RANK" in os.environ


def launch(command: str, config: TrainingConfig, folder: Path) -> TrainingResult:
    """Run a training command in `config.processes` processes, wait for it and read its result.

    Raises:
        RunError: if one of them failed; what it said stands above.
    """
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as recipe:
        yaml.safe_dump({**config.values(), "out": str(folder)}, recipe)
        recipe.flush()
        where = [] if torch.cuda.is_available() else ["--cpu"]
        threads = max(1, (os.cpu_count() or 1) // config.processes)
        multi = ["--multi_gpu"] if torch.cuda.is_available() else []
        process = subprocess.Popen(
            [sys.executable, "-m", "accelerate.commands.launch", *where, *multi, "--num_processes", str(config.processes),
             "--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0",
             "--num_cpu_threads_per_process", str(threads), "--module", "bertcli", command, "--recipe", recipe.name],
            env={**os.environ, "TOKENIZERS_PARALLELISM": "false"},
        )  # fmt: skip
        try:
            code = process.wait()
        except KeyboardInterrupt:
            process.send_signal(signal.SIGINT)
            process.wait()
            raise
    if code == 2:
        raise UserError("The processes refused the request.", "See what they said above.")
    if code == 130:
        raise Interrupted("Stopped; the checkpoint is kept.", f"Go on: bert {command} --resume --out {folder}")
    if code:
        raise RunError(f"One of the {config.processes} processes failed (exit code {code}).", "See what it said above.")
    return TrainingResult.read(folder)
