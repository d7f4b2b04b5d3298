"""One command in several processes, one per device; Accelerate reads the variables that torchrun sets."""

import logging
import math
import os
import platform
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from typing import Any

import psutil
import yaml
from joblib import cpu_count

from bertcli.errors import Interrupted, RunError, UserError
from bertcli.training.result import TrainingResult
from bertcli.training.run_folder import RunFolder
from bertcli.training.stopping import Interruption

logger = logging.getLogger("bertcli")
STARTED_BY = "BERT_STARTED_BY"  # the process that starts the others, and waits for them
LAUNCHER = re.compile(r"(^|/)accelerate(-launch)?$|accelerate[./]commands[./](launch|accelerate_cli)")


def is_warning(record: logging.LogRecord) -> bool:
    """Whether a line is a warning or an error. Before the training, the process that started this one has printed the notes."""
    return record.levelno > logging.INFO


def is_launched() -> bool:
    """Whether this process is one of several that share a run (ours, torchrun's, Accelerate's or a cluster's)."""
    return "LOCAL_RANK" in os.environ


def processes_of_run(asked: int) -> int:
    """How many processes share a run: those that were launched, else those asked for."""
    return int(os.environ.get("WORLD_SIZE", 1)) if is_launched() else asked


def processes_to_launch(asked: int) -> int:
    """How many processes are to be started: as asked, or as `accelerate launch --cpu` was asked, which starts one itself.

    Raises UserError if that was asked for several machines.
    """
    if is_launched():
        logger.removeFilter(is_warning)
        return 1
    if asked > 1 or "ACCELERATE_USE_CPU" not in os.environ:
        return asked
    launcher = psutil.Process().parent()
    typed = launcher.cmdline() if launcher else []
    begin = next((place for place, word in enumerate(typed, 1) if LAUNCHER.search(word)), None)
    return asked if begin is None else _asked_of_accelerate(typed[begin + (typed[begin] == "launch") :]) or asked


def _asked_of_accelerate(arguments: list[str]) -> int:
    """How many processes the arguments of `accelerate launch`, or its configuration, name; 0 if they name none."""
    from accelerate.commands.config.config_args import default_config_file, load_config_from_file
    from accelerate.commands.launch import launch_command_parser

    given, _ = launch_command_parser().parse_known_args(arguments)
    reads = given.config_file or (os.path.isfile(default_config_file) and not given.cpu)
    saved = load_config_from_file(given.config_file) if reads else given
    if (given.num_machines or saved.num_machines or 1) > 1:
        hint = "On each: torchrun --nnodes MACHINES --node-rank N --nproc-per-node P --master-addr FIRST -m bertcli ..."
        raise UserError("`accelerate launch` on CPUs starts one process on each machine.", hint)
    return int(given.num_processes or saved.num_processes or 0)


def launch(command: str, options: dict[str, Any], count: int, run: RunFolder) -> TrainingResult:
    """Run a training command in `count` processes, wait for them and read the result.

    Raises Interrupted after Ctrl-C, with the checkpoint saved, RunError if a process failed, which has printed why, and
    UserError if there are fewer GPUs than processes.
    """
    from bertcli.training.processes.accelerator import check_devices

    check_devices(count)
    if run.path.exists():
        run.check_free()  # the first process alone would say so, and the others wait for it
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as recipe:
        yaml.safe_dump({**options, "resume": options["resume"] or run.starts_over, "out": str(run.path)}, recipe)
        recipe.flush()
        arguments = [sys.executable, "-m", "bertcli", command, "--recipe", recipe.name]
        if not logger.isEnabledFor(logging.INFO):
            arguments.append("--quiet")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        threads = os.environ.get("OMP_NUM_THREADS", max(1, cpu_count() // count))
        shared = {"WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        shared |= {"OMP_NUM_THREADS": threads, "TOKENIZERS_PARALLELISM": "false", STARTED_BY: os.getpid()}
        processes = []
        for rank in range(count):  # this process alone prints results and passes Ctrl-C on
            own = {name: str(value) for name, value in {**shared, "RANK": rank, "LOCAL_RANK": rank}.items()}
            env = {**os.environ, **own}
            processes.append(subprocess.Popen(arguments, stdout=subprocess.DEVNULL, start_new_session=True, env=env))
        hint = f"Continue: {run.how_to_resume(command)}"
        with Interruption() as interruption:
            failed = _wait(processes, interruption)
        if interruption.asked:
            stop = Interrupted("Stopped; the checkpoint is kept.", hint, interruption.asked)
            stop.is_said = processes[0].returncode == stop.exit_code
            raise stop
    if failed is not None:
        raise _failure(processes, failed, hint)
    return TrainingResult.read(run.path)


def _wait(processes: list[subprocess.Popen[bytes]], interruption: Interruption) -> int | None:
    """Wait for all; return the first to fail. If one fails or the user interrupts, terminate the others, which save first.

    A process that waits for a failed one never ends, so it is killed after half a minute. A second Ctrl-C kills all.
    """
    failed, ends_at, terminated = None, math.inf, False
    try:
        while None in [process.poll() for process in processes] and time.monotonic() < ends_at:
            failed = _failed(processes) if failed is None else failed
            if (failed is not None or interruption.asked) and not terminated:
                terminated, ends_at = True, math.inf if interruption.asked else time.monotonic() + 30
                _signal_all(processes, interruption.asked or signal.SIGTERM)
            time.sleep(0.1)
    finally:
        for process in processes:
            process.kill()  # does nothing to one that has ended
    return _failed(processes) if failed is None else failed


def _signal_all(processes: list[subprocess.Popen[bytes]], number: int) -> None:
    for process in processes:
        process.send_signal(number)


def _failed(processes: list[subprocess.Popen[bytes]]) -> int | None:
    return next((rank for rank, process in enumerate(processes) if process.returncode), None)


def _failure(processes: list[subprocess.Popen[bytes]], rank: int, hint: str) -> RunError:
    """The error of a run of which a process has failed; the first process has said why, if it was not killed."""
    code = processes[rank].wait()
    how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"failed (exit code {code})"
    error = RunError(f"Process {rank} of {len(processes)}, on the machine {platform.node()}, {how}.", hint)
    error.is_said = processes[0].wait() > 0
    return error
