"""Checkpoints: two are kept, and what is damaged is found and named."""

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from _pytest.logging import LogCaptureFixture as LogCapture

from bertcli import evaluate, finetune, predict, pretrain
from bertcli.errors import UserError
from bertcli.training.run_folder import RunFolder
from tests.training.test_loop import SHORT, assert_same_bits, flags, stop_after

SAVING = {**SHORT, "save_steps": 1}


def flip(path: Path, place: int = -9) -> None:
    """Change one byte of a file."""
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


@pytest.fixture
def stopped(at_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of six steps that was stopped after four."""
    with monkeypatch.context() as patch:
        stop_after(patch, 4)
        with pytest.raises(UserError, match="Stopped"):
            pretrain(**SAVING, steps=6, out=str(tmp_path / "run"))
    return tmp_path / "run"


def test_the_latest_two_are_kept_and_the_one_before_a_damaged_one_is_used(
    stopped: Path, tmp_path: Path, said: LogCapture
) -> None:
    pretrain(**SAVING, steps=6, out=str(tmp_path / "whole"))
    assert {path.name for path in (stopped / "checkpoints").iterdir()} == {"step-3", "step-4"}
    for file in ("tensors.safetensors", "state.json", "checksums.sha256"):
        again = tmp_path / file
        shutil.copytree(stopped, again)
        flip(again / "checkpoints" / "step-4" / file)
        pretrain(resume=True, out=str(again))
        assert_same_bits(tmp_path / "whole", again)
    assert "step-4/tensors.safetensors is damaged" in said.text


def test_without_a_whole_checkpoint_the_error_says_what_to_type(stopped: Path) -> None:
    for step in (3, 4):
        flip(stopped / "checkpoints" / f"step-{step}" / "tensors.safetensors")
    with pytest.raises(UserError, match=r"No checkpoint of .* is whole") as caught:
        pretrain(resume=True, out=str(stopped))
    subprocess.run(caught.value.hint.partition(": ")[2].split(), check=True)
    assert pretrain(resume=True, out=str(stopped)).steps == 6


@pytest.mark.parametrize("file", ["model.safetensors", "vocab.txt"])
def test_a_damaged_model_is_refused_and_named(file: str, at_home: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree("runs/pretrain-tiny/model", model)
    flip(model / file)
    with pytest.raises(UserError, match=f"{file}` is damaged"):
        list(predict(text="a [MASK].", model=str(model)))


def test_a_damaged_shard_is_refused_and_named(at_home: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree("pretraining-data", data, ignore=shutil.ignore_patterns(".arrow"))
    shard = next(data.glob("*.parquet"))
    flip(shard, 200)
    with pytest.raises(UserError, match=f"{shard.name}` is damaged"):
        pretrain(**SHORT, steps=1, data=str(data), out=str(tmp_path / "run"))


def test_a_model_that_is_not_finite_is_refused(at_home: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    model = tmp_path / "model"
    shutil.copytree("runs/pretrain-tiny/model", model)
    (model / "checksums.sha256").unlink()
    weights = load_file(model / "model.safetensors")
    next(iter(weights.values()))[0] = float("nan")
    save_file(weights, model / "model.safetensors", {"format": "pt"})
    with pytest.raises(UserError, match="has weights that are not finite"):
        list(predict(text="a [MASK].", model=str(model)))


def test_a_run_is_resumed_from_its_folder_alone(
    stopped: Path, at_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = tmp_path / "start"
    shutil.copytree("runs/pretrain-tiny/model", start)
    options = {**SAVING, "steps": 4, "from_": str(start)}
    options.pop("size")
    pretrain(**options, out=str(tmp_path / "whole"))
    with monkeypatch.context() as patch:
        stop_after(patch, 2)
        with pytest.raises(UserError, match="Stopped"):
            pretrain(**options, out=str(tmp_path / "cut"))
    shutil.rmtree(start)
    pretrain(resume=True, out=str(tmp_path / "cut"))
    assert_same_bits(tmp_path / "whole", tmp_path / "cut")


def test_other_data_than_the_run_began_with_are_noticed(stopped: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree("pretraining-data", data)
    manifest = json.loads((data / "manifest.json").read_text())
    (data / "manifest.json").write_text(json.dumps({**manifest, "documents": 1 + manifest["documents"]}))
    with pytest.raises(UserError, match="holds other data"):
        pretrain(resume=True, out=str(stopped), data=str(data))


def test_resume_starts_what_has_nothing_saved_yet(at_home: Path, tmp_path: Path, said: LogCapture) -> None:
    run = RunFolder(tmp_path / "run")
    assert pretrain(**SHORT, steps=1, resume=True, out=str(run.path)).steps == 1
    assert "nothing to resume" in said.text
    shutil.rmtree(run.checkpoints)
    (run.path / "result.json").unlink()
    assert pretrain(resume=True, out=str(run.path)).steps == 1
    assert "has no checkpoint yet: starting from the first step" in said.text
    with pytest.raises(UserError, match="is finished"):
        pretrain(resume=True, out=str(run.path))


def test_an_option_given_with_resume_counts_where_it_equals_the_default(stopped: Path) -> None:
    config = yaml.safe_load((stopped / "config.yaml").read_text())
    (stopped / "config.yaml").write_text(yaml.safe_dump({**config, "processes": 2, "seed": 3}))
    with pytest.raises(UserError, match=r"--seed is 0, but the run .* was started with 3"):
        pretrain(resume=True, out=str(stopped), seed=0)
    assert pretrain(resume=True, out=str(stopped), processes=1).steps == 6


def test_damaged_files_beside_a_run_are_passed_over(
    stopped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: LogCapture
) -> None:
    with (stopped / "metrics.jsonl").open("a") as file:
        file.write('{"step": 9, "lo')
    assert pretrain(resume=True, out=str(stopped)).steps == 6
    monkeypatch.chdir(tmp_path)
    for name, text in (("good", (stopped / "config.yaml").read_text()), ("bad", "{a: [")):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "config.yaml").write_text(text)
    with pytest.raises(UserError):
        evaluate("glue/rte")
    assert "passed over: `runs/bad/config.yaml` cannot be read" in said.text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), pytest.param(signal.SIGHUP, 129, marks=pytest.mark.torture)]
)
def test_a_signal_saves_and_ends_with_its_code(number: int, code: int, at_home: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    command = [
        sys.executable,
        "-m",
        "bertcli",
        "pretrain",
        *flags({**SHORT, "steps": 100_000, "log_steps": 1, "out": run}),
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while not (run / "metrics.jsonl").exists():
        time.sleep(0.1)
    process.send_signal(number)
    words = process.communicate(timeout=240)[1]
    assert (process.returncode, words.count("error: Stopped after step")) == (code, 1), words
    assert list((run / "checkpoints").glob("step-*/state.json"))


@pytest.mark.slow
def test_a_full_disk_is_one_line_and_the_last_checkpoint_is_intact(stopped: Path, tmp_path: Path) -> None:
    limited = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000)); from bertcli.cli.main import main; main()"
    command = [sys.executable, "-c", limited, "pretrain", "--resume", "--out", str(stopped)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert "error: File too large" in done.stderr
    assert pretrain(resume=True, out=str(stopped)).steps == 6


def test_a_file_of_predictions_is_replaced_when_it_is_whole(at_home: Path, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"text": "a [MASK]."}\n{"text": "no mask"}\n')
    out = tmp_path / "out.jsonl"
    out.write_text("older\n")
    with pytest.raises(UserError):
        predict(file=str(rows), output=str(out), model="runs/pretrain-tiny")
    assert out.read_text() == "older\n"


def test_a_fine_tuning_is_resumed_without_the_model_that_it_started_from(
    at_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, rows = tmp_path / "start", tmp_path / "rows.csv"
    shutil.copytree("runs/pretrain-tiny/model", start / "model")
    rows.write_text("text,label\n" + "".join(f"good {n},yes\nbad {n},no\n" for n in range(40)))
    options = {"from_": str(start), "epochs": 2, "batch_size": 16, "save_steps": 1, "baseline": False}
    finetune(str(rows), **options, out=str(tmp_path / "whole"))
    with monkeypatch.context() as patch:
        stop_after(patch, 3)
        with pytest.raises(UserError, match="Stopped"):
            finetune(str(rows), **options, out=str(tmp_path / "cut"))
    shutil.rmtree(start)
    finetune(str(rows), **options, resume=True, out=str(tmp_path / "cut"))  # the same command, and --resume
    assert_same_bits(tmp_path / "whole", tmp_path / "cut")
