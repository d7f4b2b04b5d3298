"""A process that has ended or is stuck ends the run, and is named with its machine and its last output."""

import os
import platform
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.training.test_loop import SHORT, flags

pytestmark = pytest.mark.several_processes
LOST = """
import os, signal, sys, time
from bertcli.cli.main import main
from bertcli.training.loop import Training

step = Training._step

def lost(self, number, micro_batches, asked):
    if number == 3 and os.environ["RANK"] == "{rank}":
        print("the disk of this machine is slow", file=sys.stderr)
        time.sleep(0.5)
        {how}
    return step(self, number, micro_batches, asked)

Training._step = lost
main()
"""
WAYS = {
    "stopped": "os.kill(os.getpid(), signal.SIGSTOP)",
    "killed": "os.kill(os.getpid(), signal.SIGKILL)",
    "asleep": "time.sleep(1000)",
    "failed": "raise ValueError('no such thing')",
}


def variables(rank: int, count: int, port: int) -> dict[str, str]:
    """What a launcher or a cluster sets."""
    own = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    return {**os.environ, **{name: str(value) for name, value in own.items()}, "BERT_STUCK_SECONDS": "3"}


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def torture(*values: object) -> object:
    return pytest.param(*values, marks=pytest.mark.torture)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "rank"),
    [
        ("stopped", 1),
        *(torture(*each) for each in [("stopped", 0), ("killed", 1), ("killed", 0), ("asleep", 1), ("failed", 1)]),
    ],
)
def test_a_lost_process_ends_the_run_and_is_named(how: str, rank: int, at_home: Path, tmp_path: Path) -> None:
    script, port = tmp_path / "lost.py", free_port()
    script.write_text(LOST.format(rank=rank, how=WAYS[how]))
    command = [sys.executable, str(script), "pretrain", *flags({**SHORT, "steps": 100}), "--out", str(tmp_path / "run")]
    processes = [
        subprocess.Popen(command, env=variables(each, 2, port), stderr=subprocess.PIPE, text=True) for each in range(2)
    ]
    words = processes[1 - rank].communicate(timeout=120)[1]
    assert processes[1 - rank].returncode == 1
    assert f"error: Process {rank} of 2, on the machine {platform.node()}, " in words
    assert "; its last output: " in words
    assert "the disk of this machine is slow" in words
    assert ("ValueError: no such thing" in words) == (how == "failed")
    assert f"--resume and --out {tmp_path / 'run'}" in words
    assert processes[rank].wait(timeout=20) != 0  # it is not left behind
    assert "Traceback" not in words


@pytest.mark.torture
@pytest.mark.parametrize("launcher", ["torchrun", "ours"])
def test_a_launcher_ends_with_a_stuck_process(launcher: str, at_home: Path, tmp_path: Path) -> None:
    import psutil

    run = tmp_path / "run"
    options = [*flags({**SHORT, "steps": 100_000, "log_steps": 1}), "--out", str(run)]
    command = [sys.executable, "-m", "bertcli", "pretrain", *options, "--processes", "2"]
    if launcher == "torchrun":
        torchrun = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        command = [sys.executable, "-m", *torchrun, "-m", "bertcli", "pretrain", *options]
    environment = {**os.environ, "BERT_STUCK_SECONDS": "3"}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    while not (run / "metrics.jsonl").exists():
        assert process.poll() is None
        time.sleep(0.1)
    children = psutil.Process(process.pid).children(recursive=True)
    (stuck,) = (each for each in children if each.environ().get("RANK") == "1")
    began = time.monotonic()
    stuck.suspend()
    words = process.communicate(timeout=60)[1]
    assert time.monotonic() - began < 40
    assert (process.returncode, words.count("error: Process 1 of 2")) == (1, 1)
