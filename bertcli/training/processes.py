"""One command in several processes, one per device; Accelerate reads the variables that torchrun sets."""

import logging
import math
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
import yaml

from bertcli.errors import Interrupted, RunError
from bertcli.training.result import TrainingResult
from bertcli.training.stopping import Interruption

logger = logging.getLogger("bertcli")


def is_launched() -> bool:
    """Whether this process is one of several that share a run (ours, torchrun's or Accelerate's)."""
    return "LOCAL_RANK" in os.environ


def processes_to_launch(asked: int) -> int:
    """How many processes are to be started: as asked, or as `accelerate launch --cpu --num_processes N` was asked, which starts one."""
    if is_launched():
        return 1
    if asked > 1 or "ACCELERATE_USE_CPU" not in os.environ or "MASTER_PORT" not in os.environ:
        return asked
    launcher = psutil.Process().parent()
    typed = " ".join(launcher.cmdline()) if launcher else ""
    found = re.search(r"--num[_-]processes[ =](\d+)", typed)
    return int(found.group(1)) if found else asked


def launch(command: str, options: dict[str, Any], count: int, folder: Path) -> TrainingResult:
    """Run a training command in `count` processes, wait for them and read the result.

    Raises Interrupted after Ctrl-C, with the checkpoint saved, and RunError if a process failed; it has printed why.
    """
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as recipe:
        yaml.safe_dump({**options, "out": str(folder)}, recipe)
        recipe.flush()
        arguments = [sys.executable, "-m", "bertcli", command, "--recipe", recipe.name]
        if not logger.isEnabledFor(logging.INFO):
            arguments.append("--quiet")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        threads = max(1, (os.cpu_count() or 1) // count)
        shared = {"WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        shared |= {"OMP_NUM_THREADS": threads, "TOKENIZERS_PARALLELISM": "false"}
        processes = []
        for rank in range(count):  # this process alone prints results and passes Ctrl-C on
            own = {name: str(value) for name, value in {**shared, "RANK": rank, "LOCAL_RANK": rank}.items()}
            env = {**os.environ, **own}
            processes.append(subprocess.Popen(arguments, stdout=subprocess.DEVNULL, start_new_session=True, env=env))
        with Interruption() as interruption:
            code = _wait(processes, interruption)
        if interruption.asked:
            hint = f"Continue: bert {command} --resume --out {folder}"
            stop = Interrupted("Stopped; the checkpoint is kept.", hint, interruption.asked)
            stop.is_said = processes[0].returncode == stop.exit_code
            raise stop
    if code:
        raise RunError(f"One of the {count} processes failed (exit code {code}).", "See its messages above.")
    return TrainingResult.read(folder)


def _wait(processes: list[subprocess.Popen[bytes]], interruption: Interruption) -> int:
    """Wait for all; if one fails or the user interrupts, terminate the others, which save a checkpoint first.

    A process that waits for a failed one never ends, so it is killed after a minute. A second Ctrl-C kills all.
    """
    code, ends_at, terminated = 0, math.inf, False
    try:
        while None in [process.poll() for process in processes] and time.monotonic() < ends_at:
            code = code or _failure(processes)
            if (code or interruption.asked) and not terminated:
                terminated, ends_at = True, math.inf if interruption.asked else time.monotonic() + 60
                _signal_all(processes, interruption.asked or signal.SIGTERM)
            time.sleep(0.1)
    finally:
        for process in processes:
            process.kill()  # does nothing to one that has ended
    return code or _failure(processes)


def _signal_all(processes: list[subprocess.Popen[bytes]], number: int) -> None:
    for process in processes:
        process.send_signal(number)


def _failure(processes: list[subprocess.Popen[bytes]]) -> int:
    return next((process.returncode for process in processes if process.returncode), 0)
