"""The same command in several processes, one a device; Accelerate finds the others by torchrun's variables."""

import logging
import math
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

from bertcli.errors import Interrupted, RunError
from bertcli.training.interruption import Interruption
from bertcli.training.result import TrainingResult

logger = logging.getLogger("bertcli")


def is_launched() -> bool:
    """Whether this process is one of several that share a run (ours, torchrun's or Accelerate's)."""
    return "LOCAL_RANK" in os.environ


def launch(command: str, options: dict[str, Any], count: int, folder: Path) -> TrainingResult:
    """Run a training command in `count` processes, wait for them and read the result.

    Raises:
        Interrupted: after Ctrl-C; every process has finished its step, and the checkpoint is saved.
        RunError: if one of them failed; what it said stands above.
    """
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as recipe:
        yaml.safe_dump({**options, "out": str(folder)}, recipe)
        recipe.flush()
        arguments = [sys.executable, "-m", "bertcli", command, "--recipe", recipe.name]
        if not logger.isEnabledFor(logging.INFO):
            arguments.append("--quiet")
        port = _free_port()
        processes = [
            # Results are this process's to print, and Ctrl-C this one's to pass on.
            subprocess.Popen(
                arguments, stdout=subprocess.DEVNULL, start_new_session=True, env=_environment(rank, count, port)
            )
            for rank in range(count)
        ]
        with Interruption() as interruption:
            code = _wait(processes, interruption)
        if interruption.asked:
            stop = Interrupted("Stopped; the checkpoint is kept.", f"Go on: bert {command} --resume --out {folder}")
            stop.is_said = processes[0].returncode == stop.exit_code
            raise stop
    if code:
        raise RunError(f"One of the {count} processes failed (exit code {code}).", "See what it said above.")
    return TrainingResult.read(folder)


def _environment(rank: int, count: int, port: int) -> dict[str, str]:
    threads = max(1, (os.cpu_count() or 1) // count)
    return {
        **os.environ,
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(count),
        "LOCAL_WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": str(threads),
        "TOKENIZERS_PARALLELISM": "false",
    }


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _wait(processes: list[subprocess.Popen[bytes]], interruption: Interruption) -> int:
    """Wait for all; when one fails or the user wants it, end the others, which save what they have.

    Those that wait for one that failed would do so for ever: they get a minute. A second Ctrl-C ends all at once.
    """
    code, ends_at, is_told = 0, math.inf, False
    try:
        while any(process.poll() is None for process in processes) and time.monotonic() < ends_at:
            code = code or next((process.returncode for process in processes if process.returncode), 0)
            if (code or interruption.asked) and not is_told:
                is_told = True
                ends_at = math.inf if interruption.asked else time.monotonic() + 60
                for process in processes:
                    process.terminate()
            time.sleep(0.1)
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
    return code or next((process.returncode for process in processes if process.returncode), 0)
