"""The loop: exact resume, one large batch however it is cut, several processes, interruption."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForPreTraining, BertConfig, BertModel

from bertcli.data.checksums import write_checksums
from bertcli.data.pretraining.shards import load_pretraining_examples
from bertcli.errors import RunError, UserError
from bertcli.families.bert import BERT
from bertcli.lifecycle.pretrain import pretrain
from bertcli.models.dropout import seed_dropout
from bertcli.models.loading import build_model
from bertcli.objectives import get_objective
from bertcli.objectives.objective import ObjectiveExamples
from bertcli.training import device
from bertcli.training.checkpoint import latest_checkpoint
from bertcli.training.device import micro_batch_tokens
from bertcli.training.loop import Training
from bertcli.training.run_folder import RunFolder

SHORT = {"size": "tiny", "batch_size": 8, "learning_rate": 1e-3, "seed": 3}


def weights(run: str | Path) -> dict[str, torch.Tensor]:
    return load_file(Path(run) / "model" / "model.safetensors")


def assert_same_bits(one: str | Path, other: str | Path) -> None:
    first, second = weights(one), weights(other)
    assert first.keys() == second.keys()
    for name in first:
        assert torch.equal(first[name], second[name]), name


def stop_after(monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    """Ask the loop to stop as Ctrl-C does, once `steps` steps are made."""
    step = Training._step

    def watched(self, number, micro_batches, asked):
        return step(self, number, micro_batches, asked or number + 1 == steps)

    monkeypatch.setattr(Training, "_step", watched)


def logged(run: str | Path) -> list[tuple]:
    """The lines of metrics.jsonl without what depends on the time."""
    timed = ("tokens_per_second", "share_of_peak")
    return [
        [(key, value) for key, value in line.items() if key not in timed] for line in RunFolder(Path(run)).metrics()
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("masking", "precision"), [("static", "float32"), ("dynamic", "bfloat16")])
def test_a_resumed_run_has_the_weights_and_the_losses_of_an_undisturbed_one_to_the_bit(
    at_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, masking: str, precision: str
) -> None:
    data = tmp_path / "data"
    if masking == "static":
        data = at_home / "pretraining-data"
    else:
        from bertcli.lifecycle.make_pretraining_data import make_pretraining_data

        make_pretraining_data("corpus.txt", max_seq_length=48, masking="dynamic", out=str(data), dupe_factor=2)
    options = {**SHORT, "data": str(data), "steps": 6, "log_steps": 4, "precision": precision}
    whole = pretrain(**options, out=str(tmp_path / "whole"))
    with monkeypatch.context() as patch:
        stop_after(patch, 3)
        with pytest.raises(UserError, match="Stopped after step 3 of 6"):
            pretrain(**options, save_steps=2, out=str(tmp_path / "cut"))
    resumed = pretrain(resume=True, out=str(tmp_path / "cut"))
    assert_same_bits(whole.run, resumed.run)
    assert resumed.steps == 6
    assert resumed.losses == whole.losses
    assert logged(resumed.run) == logged(whole.run)
    assert [line["step"] for line in RunFolder(tmp_path / "cut").metrics()] == [
        4,
        6,
        6,
        6,
    ]  # losses, filled sentences, metrics


@pytest.mark.torture
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_the_first_training_on_a_machine_which_compiles_kernels_has_the_bits_of_later_ones_which_load_them(
    at_home: Path, tmp_path: Path, precision: str
) -> None:
    command = [sys.executable, "-m", "bertcli", "pretrain", *flags({**SHORT, "steps": 2, "precision": precision})]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "compiled")}
    for run in ("first", "later"):
        done = subprocess.run([*command, "--out", str(tmp_path / run)], env=environment, check=False)
        assert done.returncode == 0
    assert list(tmp_path.glob("compiled/**/*.nbc"))
    assert_same_bits(tmp_path / "first", tmp_path / "later")


def test_a_checkpoint_of_before_losses_were_kept_can_go_on(
    at_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        stop_after(patch, 2)
        with pytest.raises(UserError, match="Stopped"):
            pretrain(**SHORT, steps=3, log_steps=3, out=str(tmp_path / "run"))
    (state,) = (tmp_path / "run" / "checkpoints").glob("*/state.json")
    remembered = json.loads(state.read_text())
    assert len(remembered.pop("unlogged")) == 2
    state.write_text(json.dumps(remembered))
    write_checksums(state.parent)
    assert len(pretrain(resume=True, out=str(tmp_path / "run")).losses) == 1


def latest_state(run: Path) -> dict:
    return json.loads((latest_checkpoint(run) / "state.json").read_text())


@pytest.mark.torture
def test_the_first_steps_are_timed_only_for_want_of_later_ones(
    at_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = Training._step

    def slow_at_first(self, number, micro_batches, asked):
        time.sleep(0.3 if number < 6 else 0)
        return step(self, number, micro_batches, asked)

    monkeypatch.setattr(Training, "_step", slow_at_first)
    short = pretrain(**SHORT, steps=3, out=str(tmp_path / "run"))
    assert 0 < short.tokens_per_second < short.steps * 8 * 48 / 0.9
    one_more = pretrain(resume=True, out=short.run, steps=4)
    assert one_more.tokens_per_second == pytest.approx(short.tokens_per_second, rel=0.5)
    assert pretrain(resume=True, out=short.run, steps=9).tokens_per_second > 2 * short.tokens_per_second
    seconds = latest_state(tmp_path / "run")["timed_seconds"]
    pretrain(resume=True, out=short.run, steps=11)
    assert latest_state(tmp_path / "run")["timed_seconds"] == seconds


def test_a_resumed_run_refuses_other_options(at_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        stop_after(patch, 2)
        with pytest.raises(UserError, match="Stopped"):
            pretrain(**SHORT, steps=4, out=str(tmp_path / "run"))
    for other in ({"batch_size": 4}, {"seed": 7}, {"optimizer": "adamw"}):
        with pytest.raises(UserError, match="was started with"):
            pretrain(resume=True, out=str(tmp_path / "run"), **other)
    assert pretrain(resume=True, out=str(tmp_path / "run"), steps=5).steps == 5


def test_accumulated_micro_batches_give_the_gradients_of_one_large_batch(at_home: Path) -> None:
    examples = load_pretraining_examples("pretraining-data", 0)
    model = build_model(AutoModelForPreTraining, BERT, "tiny", examples.tokenizer, {}, 0)
    with_loss = get_objective("mlm+nsp").with_loss(model)
    prepared = ObjectiveExamples(get_objective("mlm+nsp"), examples)
    rows = np.arange(12)

    def gradients(parts: list[np.ndarray]) -> list[torch.Tensor]:
        with_loss.zero_grad()
        batches = [prepared.pack(part[np.argsort(-examples.lengths[part], kind="stable")], 0) for part in parts]
        totals = {name: sum(batch.counts[name] for batch in batches) for name in batches[0].counts}
        for batch in batches:
            seed_dropout(5)
            sums = with_loss(batch)
            sum(sums[name] / totals[name] for name in sums).backward()
        return [parameter.grad.clone() for parameter in with_loss.parameters()]

    for whole, cut in zip(gradients([rows]), gradients([rows[:1], rows[1:7], rows[7:]]), strict=True):
        torch.testing.assert_close(cut, whole, atol=1e-6, rtol=1e-5)


@pytest.mark.several_processes
@pytest.mark.torture
def test_two_processes_that_were_stopped_go_on_to_the_losses_of_an_undisturbed_one(
    at_home: Path, tmp_path: Path
) -> None:
    options = {**SHORT, "steps": 6, "log_steps": 4, "precision": "float32"}
    whole = pretrain(**options, out=str(tmp_path / "whole"))
    stopping = (
        "from bertcli.cli.main import main\n"
        "from bertcli.training.loop import Training\n"
        "step = Training._step\n"
        "Training._step = lambda self, number, batches, asked: step(self, number, batches, asked or number == 2)\n"
        "main()\n"
    )
    (tmp_path / "stopping.py").write_text(stopping)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*torchrun, str(tmp_path / "stopping.py"), "pretrain", *flags(options), "--out", str(tmp_path / "cut")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert "Stopped after step 3 of 6" in done.stderr
    resumed = pretrain(resume=True, processes=2, out=str(tmp_path / "cut"))
    assert resumed.losses == pytest.approx(whole.losses, abs=2e-4)
    assert [line["step"] for line in RunFolder(tmp_path / "cut").metrics() if "loss" in line] == [4, 6]


@pytest.mark.several_processes
@pytest.mark.slow
@pytest.mark.parametrize(
    ("objective", "processes", "steps"),
    [
        ("mlm+nsp", 2, 6),
        *(
            pytest.param(objective, processes, 50, marks=pytest.mark.torture)
            for objective in ("mlm+nsp", "mlm", "left-to-right", "two-directions")
            for processes in (2, 4)
        ),
    ],
)
def test_processes_give_the_losses_and_weights_of_one_at_the_default_dropout(
    at_home: Path, tmp_path: Path, objective: str, processes: int, steps: int
) -> None:
    options = {**SHORT, "steps": steps, "learning_rate": 1e-3, "log_steps": 1, "precision": "float32"}
    options |= {"objective": objective, "micro_batch_tokens": 100}
    pretrain(**{**options, "micro_batch_tokens": 10_000}, out=str(tmp_path / "one"))
    command = [sys.executable, "-m", "bertcli", "pretrain", *flags(options), "--processes", str(processes)]
    command += ["--json", "--quiet", "--out", str(tmp_path / "several")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    losses = [
        [line["loss"] for line in RunFolder(tmp_path / run).metrics() if "loss" in line] for run in ("one", "several")
    ]
    assert len(losses[0]) == steps
    assert losses[1] == pytest.approx(losses[0], abs=1e-5)
    first, second = weights(tmp_path / "one"), weights(tmp_path / "several")
    for name in first:
        torch.testing.assert_close(
            second[name], first[name], atol=1e-4, rtol=0, msg=lambda text, n=name: f"{n}: {text}"
        )


def flags(options: dict) -> list[str]:
    return [part for key, value in options.items() for part in (f"--{key.replace('_', '-')}", str(value))]


@pytest.mark.slow
@pytest.mark.parametrize(
    "processes", ["1", pytest.param("2", marks=[pytest.mark.torture, pytest.mark.several_processes])]
)
def test_ctrl_c_ends_with_130_keeps_the_checkpoint_and_can_go_on(at_home: Path, tmp_path: Path, processes: str) -> None:
    run = tmp_path / "run"
    options = {**SHORT, "steps": 100_000, "log_steps": 1, "processes": processes, "out": str(run)}
    command = [sys.executable, "-m", "bertcli", "pretrain", *flags(options)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for _ in range(1800):
        if (run / "metrics.jsonl").exists():
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, words = process.communicate(timeout=240)
    assert process.returncode == 130, words
    assert "Traceback" not in words
    assert words.count("error: ") == 1
    assert "error: Stopped after step" in words
    assert f"--resume --out {run}" in words
    made = latest_state(run)["step"]
    resumed = pretrain(resume=True, out=str(run), steps=made + 2)
    assert resumed.steps == made + 2


def test_a_folder_in_use_by_another_run_is_refused(at_home: Path, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.create("pretrain", {})
    with pytest.raises(UserError, match="in use by another run"):
        pretrain(**SHORT, steps=2, out=str(tmp_path / "run"))
    folder.unlock()
    with pytest.raises(UserError, match="is not empty") as begun:
        pretrain(**SHORT, steps=2, out=str(tmp_path / "run"))
    assert "--resume" in begun.value.hint
    (folder.path / "result.json").write_text("{}")
    with pytest.raises(UserError, match="is not empty") as finished:
        pretrain(**SHORT, steps=2, out=str(tmp_path / "run"))
    assert finished.value.hint == "Give another --out."


def test_a_loss_that_is_no_number_stops_the_run_with_a_hint(at_home: Path, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"10 updates in a row were not finite, the last at step 1\d, whose") as caught:
        pretrain(
            **{**SHORT, "learning_rate": 1e30},
            steps=20,
            warmup_steps=0,
            log_steps=20,
            save_steps=20,
            out=str(tmp_path / "run"),
        )
    assert caught.value.exit_code == 1
    assert not (tmp_path / "run" / "checkpoints").exists()
    hint = shlex.split(caught.value.hint.partition(": ")[2])
    options = {"resume": True, "out": hint[hint.index("--out") + 1]}
    assert pretrain(**options, learning_rate=1e-4, steps=2).steps == 2


@pytest.mark.parametrize("steps", [1, 2])
def test_the_last_update_is_checked_too(at_home: Path, tmp_path: Path, steps: int) -> None:
    options = {**SHORT, "learning_rate": 1e38, "warmup_steps": 0, "out": str(tmp_path / "run")}
    with pytest.raises(RunError, match="The model is not finite after step"):
        pretrain(**options, steps=steps)
    assert not (tmp_path / "run" / "model").exists()


def test_a_full_gpu_is_a_line_that_says_how_to_fit(
    at_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 94.00 MiB.")

    monkeypatch.setattr(Training, "_step", full)
    with pytest.raises(RunError, match="Out of memory in a pass over") as caught:
        pretrain(**SHORT, steps=2, micro_batch_tokens=100, out=str(tmp_path / "run"))
    tokens = int(caught.value.message.split()[-2])
    assert 50 < tokens <= 100
    assert f"--micro-batch-tokens {tokens // 2}:" in caught.value.hint


def test_micro_batches_are_halved_until_memory_holds_them(
    at_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {**SHORT, "steps": 2, "precision": "float32"}
    whole = pretrain(**options, out=str(tmp_path / "whole"))
    step = Training._step

    def small_memory(self, number, micro_batches, asked):
        if max(len(batch.input_ids) for batch in micro_batches) > 60:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 94 bytes.")
        return step(self, number, micro_batches, asked)

    monkeypatch.setattr(Training, "_step", small_memory)
    halved = pretrain(**options, auto_batch_size=True, out=str(tmp_path / "halved"))
    assert halved.losses == pytest.approx(whole.losses, abs=1e-4)


@pytest.mark.parametrize(
    ("gibibytes", "tokens", "of_base", "of_large"),
    [
        (8, 4096, 18164, 7098),
        (24, 12288, 54494, 21294),
        (80, 40960, 131072, 70981),
        (139.7, 65536, 131072, 123950),
        (180, 65536, 131072, 131072),
    ],
)
def test_a_gpu_is_given_as_many_tokens_at_once_as_its_memory_holds(
    gibibytes: float, tokens: int, of_base: int, of_large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = SimpleNamespace(total_memory=int(gibibytes * 2**30))
    for name, value in {"is_available": True, "current_device": 0, "get_device_properties": gpu}.items():
        monkeypatch.setattr(torch.cuda, name, lambda *_, value=value: value)
    with torch.device("meta"):
        base, large = (
            BertModel(BertConfig(hidden_size=64 * n, num_hidden_layers=n, num_attention_heads=n)) for n in (12, 16)
        )
    large.config.num_hidden_layers = 24
    assert micro_batch_tokens(None, [base]) == tokens  # its attention keeps scores
    monkeypatch.setattr(device, "keeps_no_scores", lambda _: True)
    assert micro_batch_tokens(None) == tokens
    assert [micro_batch_tokens(None, [each]) for each in (base, large)] == [of_base, of_large]
    assert micro_batch_tokens(99, [base]) == 99


def test_two_runs_in_one_process_may_differ_in_precision(at_home: Path, tmp_path: Path) -> None:
    for precision in ("bfloat16", "float32"):
        result = pretrain(**SHORT, steps=1, precision=precision, out=str(tmp_path / precision))
        assert load_file(Path(result.model) / "model.safetensors")["cls.seq_relationship.bias"].dtype == torch.float32


def test_a_tracker_of_accelerate_is_fed(at_home: Path, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    pretrain(**SHORT, steps=2, log_steps=1, track="tensorboard", out=str(tmp_path / "run"))
    assert list((tmp_path / "run" / "tracking").rglob("events.*"))
