"""A run in several processes is the run in one, whoever starts the processes."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
import torch

from bertcli.errors import UserError
from bertcli.lifecycle.finetune import finetune
from bertcli.lifecycle.pretrain import pretrain
from bertcli.training.processes import launching
from bertcli.training.processes.accelerator import check_devices
from bertcli.training.processes.launching import processes_to_launch
from bertcli.training.run_folder import RunFolder
from tests.lifecycle.test_finetune import OWN
from tests.training.processes.test_watch import free_port, variables
from tests.training.test_loop import SHORT, flags, weights

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
ACCELERATE = [sys.executable, "-m", "accelerate.commands.launch"]
CONFIGURATION = "compute_environment: LOCAL_MACHINE\ndistributed_type: {type}\nuse_cpu: {cpu}\nmixed_precision: 'no'\n"
SAVED = "num_processes: {count}\nnum_machines: 1\ndebug: false\n"
pytestmark = pytest.mark.several_processes
LONG = {**SHORT, "steps": 50, "log_steps": 1, "precision": "float32"}


def losses(run: str | Path) -> list[float]:
    return [line["loss"] for line in RunFolder(Path(run)).metrics() if "loss" in line]


def assert_same_run(one: str | Path, other: str | Path) -> None:
    assert losses(other) == pytest.approx(losses(one), abs=1e-5)
    first, second = weights(one), weights(other)
    # A softmax over places does not see the bias of a span's head: its gradient is rounding, which Adam makes a step of.
    for name in first.keys() - {"qa_outputs.bias"}:
        torch.testing.assert_close(
            second[name], first[name], atol=1e-4, rtol=0, msg=lambda text, n=name: f"{n}: {text}"
        )


def bert(launcher: list[str], *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command in processes that a launcher starts."""
    command = [*launcher, "-m", "bertcli", *arguments]
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.torture
def test_torchrun_shards_by_fsdp_and_trains_what_one_process_trains(at_home: Path, tmp_path: Path) -> None:
    options = {**LONG, "steps": 6}
    pretrain(**options, out=str(tmp_path / "one"))
    arguments = ("pretrain", *flags(options), "--out", str(tmp_path / "two"), "--json", "--quiet")
    done = bert([*TORCHRUN, "2"], *arguments, ACCELERATE_USE_FSDP="true")
    assert json.loads(done.stdout)["run"] == str(tmp_path / "two")  # one object, of the first process
    assert_same_run(tmp_path / "one", tmp_path / "two")


@pytest.mark.torture
@pytest.mark.parametrize("optimizer", ["bert", "lamb"])
def test_shards_train_what_one_process_trains_and_go_on_where_it_stopped(
    optimizer: str, at_home: Path, tmp_path: Path
) -> None:
    options = {**LONG, "optimizer": optimizer, "micro_batch_tokens": 100}
    pretrain(**options, out=str(tmp_path / "one"))
    half = tmp_path / "half"
    pretrain(**{**options, "steps": 20}, warmup_steps=5, out=str(half))
    whole = pretrain(**options, warmup_steps=5, out=str(tmp_path / "whole"))
    launcher = [*ACCELERATE, "--use_fsdp", "--num_processes", "3", "--main_process_port", str(free_port())]
    bert(launcher, "pretrain", *flags(options), "--out", str(tmp_path / "three"))
    assert_same_run(tmp_path / "one", tmp_path / "three")
    # Another length changes the learning rates of the first half: only that it goes on, there and back, is claimed.
    bert(launcher, "pretrain", "--resume", "--out", str(half), "--steps", "40")
    resumed = pretrain(resume=True, out=str(half), steps=50)
    assert resumed.steps == whole.steps
    assert len(losses(half)) == 50


@pytest.mark.torture
def test_shards_train_in_bfloat16(at_home: Path, tmp_path: Path) -> None:
    options = {**LONG, "precision": "bfloat16"}
    one = pretrain(**options, out=str(tmp_path / "one"))
    launcher = [*ACCELERATE, "--use_fsdp", "--num_processes", "2", "--main_process_port", str(free_port())]
    bert(launcher, "pretrain", *flags(options), "--out", str(tmp_path / "two"))
    assert losses(tmp_path / "two") == pytest.approx(losses(one.run), abs=0.05)


@pytest.mark.torture
@pytest.mark.parametrize("kind", ["MULTI_CPU", "FSDP"])
def test_accelerate_reads_its_configuration(kind: str, at_home: Path, tmp_path: Path) -> None:
    pretrain(**LONG, out=str(tmp_path / "one"))
    cpu = str(kind == "MULTI_CPU").lower()
    (tmp_path / "accelerate.yaml").write_text((CONFIGURATION + SAVED).format(type=kind, cpu=cpu, count=2))
    launcher = [*ACCELERATE, "--config_file", str(tmp_path / "accelerate.yaml")]
    done = bert(launcher, "pretrain", *flags(LONG), "--out", str(tmp_path / "two"))
    assert "on 2 × cpu" in done.stderr
    assert_same_run(tmp_path / "one", tmp_path / "two")


@pytest.mark.parametrize(
    ("typed", "count"),
    [
        ("accelerate launch --num_processes 3 --cpu -m bertcli pretrain", 3),
        ("/bin/accelerate-launch --cpu --num-processes=3 -m bertcli pretrain --processes 1", 3),
        ("python -m accelerate.commands.launch --config_file saved.yaml -m bertcli pretrain", 4),
        ("accelerate launch --config_file saved.yaml --num_processes 2 -m bertcli pretrain", 2),
        ("bash job.sh", 1),
    ],
)
def test_as_many_processes_are_started_as_accelerate_was_asked_for(
    typed: str, count: int, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("saved.yaml").write_text((CONFIGURATION + SAVED).format(type="MULTI_CPU", cpu="true", count=4))
    monkeypatch.setenv("ACCELERATE_USE_CPU", "True")
    parent = SimpleNamespace(cmdline=typed.split)
    monkeypatch.setattr(launching.psutil, "Process", lambda: SimpleNamespace(parent=lambda: parent))
    assert processes_to_launch(1) == count
    if count > 1:
        parent.cmdline = typed.replace("launch ", "launch --num_machines 2 ").split
        with pytest.raises(UserError, match="on each machine"):
            processes_to_launch(1)


def test_fewer_gpus_than_processes_are_said_before_any_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    for gpus, processes in ((0, 4), (4, 4), (1, 1)):
        monkeypatch.setattr(torch.cuda, "device_count", lambda gpus=gpus: gpus)
        check_devices(processes)
    with pytest.raises(UserError, match="--processes 2 needs as many GPUs, and this machine has 1") as error:
        check_devices(2)
    assert "Give --processes 1," in error.value.hint
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")  # as `accelerate launch --cpu` does
    check_devices(2)


@pytest.mark.torture
def test_several_machines_share_a_run(at_home: Path, tmp_path: Path) -> None:
    pretrain(**LONG, out=str(tmp_path / "one"))
    nodes, port, run = [], str(free_port()), tmp_path / "two"
    data = str(at_home / "pretraining-data")
    for node in range(2):
        folder = tmp_path / f"machine-{node}"
        folder.mkdir()
        torchrun = ["torch.distributed.run", "--nnodes", "2", "--node-rank", str(node), "--nproc-per-node", "2"]
        torchrun += ["--master-addr", "127.0.0.1", "--master-port", port]
        command = [sys.executable, "-m", *torchrun, "-m", "bertcli", "pretrain", *flags(LONG), "--data", data]
        nodes.append(subprocess.Popen([*command, "--out", str(run)], cwd=folder, stderr=subprocess.PIPE, text=True))
    words = [each.communicate(timeout=300)[1] for each in nodes]
    assert [each.returncode for each in nodes] == [0, 0], words
    assert "on 4 × cpu" in words[0]
    assert "on 4 × cpu" not in words[1]  # the first process alone speaks
    assert_same_run(tmp_path / "one", run)


@pytest.mark.torture
def test_a_run_is_shared_by_the_usual_variables(at_home: Path, tmp_path: Path) -> None:
    options = {**LONG, "steps": 20}
    pretrain(**options, out=str(tmp_path / "one"))
    port, command = free_port(), [sys.executable, "-m", "bertcli", "pretrain", *flags(options)]
    processes = [
        subprocess.Popen([*command, "--out", str(tmp_path / "three")], env=variables(rank, 3, port))
        for rank in range(3)
    ]
    assert [each.wait(timeout=300) for each in processes] == [0, 0, 0]
    assert_same_run(tmp_path / "one", tmp_path / "three")


STOPPED = """
from bertcli.cli.main import main
from bertcli.training.loop import Training
step = Training._step
Training._step = lambda self, number, batches, asked: step(self, number, batches, asked or number == {last})
main()
"""


@pytest.mark.torture
@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 2), (4, 3)])
@pytest.mark.parametrize("command", ["pretrain", "finetune"])
def test_a_run_goes_on_with_another_number_of_processes(
    command: str, before: int, after: int, at_home: Path, tmp_path: Path
) -> None:
    options = LONG if command == "pretrain" else {"from": "runs/pretrain-tiny", "epochs": 25, "batch_size": 12}
    options = {**options, "precision": "float32", "learning_rate": 1e-3, "log_steps": 1}
    (tmp_path / "classes.csv").write_text(OWN["classes.csv"])
    task = [str(tmp_path / "classes.csv"), "--no-baseline"] if command == "finetune" else []
    (tmp_path / "stopped.py").write_text(STOPPED.format(last=24))
    bert([sys.executable], command, *task, *flags(options), "--out", str(tmp_path / "whole"))
    torchrun = [*TORCHRUN, str(before), str(tmp_path / "stopped.py"), command, *task, *flags(options)]
    done = subprocess.run([*torchrun, "--out", str(tmp_path / "cut")], capture_output=True, text=True, check=False)
    assert "Stopped after step 25" in done.stderr
    resume = pretrain if command == "pretrain" else finetune
    task = task[:1] if command == "finetune" else []
    resume(*task, resume=True, processes=after, out=str(tmp_path / "cut"))
    assert len(losses(tmp_path / "cut")) >= 40
    assert_same_run(tmp_path / "whole", tmp_path / "cut")


@pytest.mark.torture
def test_processes_begin_again_what_was_killed_before_anything_was_saved(at_home: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    pretrain(**{**LONG, "steps": 2}, out=str(run))
    shutil.rmtree(run / "checkpoints")
    (run / "result.json").unlink()
    assert pretrain(resume=True, processes=2, out=str(run)).steps == 2


@pytest.mark.torture
@pytest.mark.parametrize("name", [*OWN])
def test_processes_train_what_one_trains_of_each_kind_and_score_each_example_once(
    name: str, at_home: Path, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(OWN[name])
    extra = ["--frozen"] if name.startswith("frozen") else []
    options = {"from": "runs/pretrain-tiny", "epochs": 12, "batch_size": 6, "learning_rate": 1e-3, "log_steps": 1}
    arguments = ("finetune", str(tmp_path / name), *flags({**options, "precision": "float32"}), "--no-baseline", *extra)
    runs = [tmp_path / str(count) for count in (1, 2, 3)]
    for run in runs:
        bert([sys.executable], *arguments, "--processes", run.name, "--out", str(run))
    for run in runs[1:]:
        assert_same_run(runs[0], run)
        assert scored(run) == scored(runs[0])


def scored(run: Path) -> list[int]:
    """How many lines each file of predictions has."""
    return [len(path.read_text().splitlines()) for path in sorted(run.glob("*predictions*"))]


@pytest.mark.slow
def test_processes_whose_launcher_is_killed_save_and_stop_and_leave_the_folder_free(
    at_home: Path, tmp_path: Path
) -> None:
    run, options = tmp_path / "run", {**LONG, "steps": 100_000, "processes": 2}
    command = [sys.executable, "-m", "bertcli", "pretrain", *flags(options), "--out", str(run)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as launcher:
        try:
            while not (run / "metrics.jsonl").exists():
                time.sleep(0.1)
            children = psutil.Process(launcher.pid).children()
            with pytest.raises(UserError, match="is in use by another run"):
                pretrain(resume=True, processes=2, out=str(run))
        finally:
            launcher.kill()
    assert psutil.wait_procs(children, timeout=60)[1] == []
    assert list((run / "checkpoints").glob("step-*/state.json"))
    RunFolder(run).check_free()


@pytest.mark.torture
def test_other_commands_run_in_one_of_the_processes(at_home: Path, tmp_path: Path) -> None:
    done = bert([*TORCHRUN, "3"], "tasks", "--json")
    assert len(done.stdout.splitlines()) == 1


@pytest.mark.slow
def test_what_is_said_before_the_training_is_said_once(at_home: Path, tmp_path: Path) -> None:
    asked = ["pretrain", *flags({**LONG, "steps": 2}), "--processes", "2", "--out", str(tmp_path / "run")]
    done = subprocess.run([sys.executable, "-m", "bertcli", *asked], capture_output=True, text=True, check=True)
    said = [line for line in done.stderr.splitlines() if line.startswith(("data: ", "model: "))]
    assert len(said) == len(set(said)) == 2
    assert "step 2" in done.stderr
