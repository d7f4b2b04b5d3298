"""A pre-training in phases: shorter inputs first, in one run, which is resumed across the seam to the bit."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertcli.config.training import PretrainConfig
from bertcli.data.packing.batches import TrainingBatches
from bertcli.data.pretraining.phases import PhasedExamples
from bertcli.errors import UserError
from bertcli.lifecycle.make_pretraining_data import make_pretraining_data
from bertcli.lifecycle.pretrain import pretrain
from bertcli.lifecycle.pretraining.phases import find_phases
from bertcli.objectives import get_objective
from bertcli.objectives.objective import ObjectiveExamples
from bertcli.training.plan import Plan
from bertcli.training.run_folder import RunFolder
from tests.training.test_loop import SHORT, assert_same_bits, logged, stop_after, weights

PHASES = {"phases": "16:0.5,32:0.5", "steps": 6, "log_steps": 1}


@pytest.fixture(scope="module")
def folders(home: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Data of two lengths."""
    made = []
    for length in (16, 32):
        made.append(str(tmp_path_factory.mktemp("data") / str(length)))
        options = {"tokenizer": str(home / "vocab"), "dupe_factor": 1, "max_predictions_per_seq": 3, "workers": 1}
        make_pretraining_data(str(home / "corpus.txt"), max_seq_length=length, out=made[-1], **options)
    return made


@pytest.fixture(scope="module")
def whole(home: Path, folders: list[str], tmp_path_factory: pytest.TempPathFactory) -> str:
    """An undisturbed run of two phases."""
    out = str(tmp_path_factory.mktemp("runs") / "whole")
    return pretrain(**SHORT, **PHASES, data=",".join(folders), out=out).run


@pytest.fixture
def begun(folders: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The same run, stopped in its first phase."""
    run = str(tmp_path / "run")
    with monkeypatch.context() as patch:
        stop_after(patch, 2)
        with pytest.raises(UserError, match="Stopped"):
            pretrain(**SHORT, **PHASES, data=",".join(folders), out=run)
    return run


def test_each_phase_trains_on_its_own_length_and_the_second_also_its_positions(
    folders: list[str], whole: str, tmp_path: Path
) -> None:
    options = {**SHORT, "steps": 6, "log_steps": 1, "data": folders[0]}
    first = pretrain(**options, out=str(tmp_path / "short")).run
    assert logged(whole)[1:4] == logged(first)[:3]  # the same batches, masks and learning rates
    of_positions = "bert.embeddings.position_embeddings.weight"
    changed = (weights(whole)[of_positions] != weights(first)[of_positions]).any(1).numpy().nonzero()[0]
    assert changed.max() >= 16
    rates = [line["learning_rate"] for line in RunFolder(Path(whole)).metrics() if "loss" in line]
    assert all(before > after for before, after in pairwise(rates))


@pytest.mark.parametrize("step", [2, 3, 4])
def test_a_run_resumed_in_either_phase_or_at_the_seam_ends_with_the_same_bits(
    step: int, folders: list[str], whole: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = str(tmp_path / "run")
    with monkeypatch.context() as patch:
        stop_after(patch, step)
        with pytest.raises(UserError, match=f"Stopped after step {step} of 6"):
            pretrain(**SHORT, **PHASES, data=",".join(folders), out=run)
    pretrain(resume=True, out=run)
    assert_same_bits(whole, run)
    assert logged(whole) == logged(run)


def test_the_run_says_its_phases(folders: list[str], whole: str) -> None:
    said = RunFolder(Path(whole)).metrics()[0]["phases"]
    assert [(each["first_step"], each["last_step"], each["max_seq_length"]) for each in said] == [
        (1, 3, 16),
        (4, 6, 32),
    ]
    for page in ("README.md", "report.html"):
        text = Path(whole, page).read_text()
        assert all(f"steps {steps} at length {length}" in text for steps, length in (("1 to 3", 16), ("4 to 6", 32)))
    assert RunFolder(Path(whole)).config["data"] == ",".join(folders)


def test_other_data_of_one_phase_are_noticed(folders: list[str], begun: str) -> None:
    with pytest.raises(UserError, match="instances of length 16, not of 32"):
        pretrain(resume=True, out=begun, data=f"{folders[0]},{folders[0]}")
    with pytest.raises(UserError, match="--phases is 16:1, but the run in"):
        pretrain(resume=True, out=begun, phases="16:1")


def test_a_run_in_phases_is_not_made_longer_as_that_would_move_them(whole: str, begun: str) -> None:
    with pytest.raises(UserError, match="is finished") as refused:
        pretrain(resume=True, out=whole, steps=12)
    assert refused.value.hint == f"Train its model further: bert pretrain --from {whole}"
    with pytest.raises(UserError, match="has phases of its 6 steps, which 12 steps would move"):
        pretrain(resume=True, out=begun, steps=12)


def test_without_names_the_latest_data_of_each_length_are_taken(
    folders: list[str], workspace: Path, said: pytest.LogCaptureFixture
) -> None:
    for folder in folders:
        Path(workspace, f"data-{Path(folder).name}").symlink_to(folder)
    phases = find_phases(PretrainConfig(phases="32:0.25,16:0.75", steps=8))
    assert [(phase.steps, phase.examples.max_seq_length) for phase in phases] == [(range(2), 32), (range(2, 8), 16)]
    assert "data of length 16: data-16 (latest in this folder)" in said.text
    with pytest.raises(UserError, match="no pre-training data of length 512 in this folder") as error:
        find_phases(PretrainConfig(phases="16:0.9,512:0.1"))
    command = "bert make-pretraining-data TEXT --max-seq-length 512 --max-predictions-per-seq 77"
    assert error.value.hint == f"Make some: {command} --out pretraining-data-512"


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ("128", "takes LENGTH:SHARE"),
        ("a:1", "takes LENGTH:SHARE"),
        ("128:0.9,512:0.2", "shares that do not sum to 1"),
        ("128:1.5,512:-0.5", "shares that do not sum to 1"),
        ("128:nan", "shares that do not sum to 1"),
        ("128:0.999,512:0.001", "a phase with no steps, of 10 in total"),
    ],
)
def test_phases_of_another_form_are_refused(given: str, what: str) -> None:
    with pytest.raises(UserError, match=what):
        find_phases(PretrainConfig(phases=given, steps=10))


def test_data_are_named_for_each_phase(folders: list[str]) -> None:
    with pytest.raises(UserError, match="has 2 phases, and --data names 1 folder"):
        find_phases(PretrainConfig(**PHASES, data=folders[0]))
    with pytest.raises(UserError, match="names 2 folders, and there are no --phases"):
        find_phases(PretrainConfig(steps=10, data=",".join(folders[:2])))


def test_the_batches_of_a_phase_are_those_of_its_data_alone(folders: list[str]) -> None:
    phases = find_phases(PretrainConfig(phases="16:0.5,32:0.5", steps=10, data=",".join(folders)))
    parts = [ObjectiveExamples(get_objective("mlm"), phase.examples) for phase in phases]
    together = TrainingBatches(PhasedExamples(parts, phases), 8, 1, 64)
    for step in range(10):
        alone = parts[step // 5]
        rows = alone.rows_of_step(1, step % 5, 8)
        found = together.of_step(step)
        assert sorted(np.concatenate([batch.rows for batch in found])) == sorted(rows)
        assert all(len(batch.input_ids) <= 64 and max(batch.lengths) <= 16 * (1 + step // 5) for batch in found)


def costs() -> Iterator[tuple[range, float]]:
    yield from ((range(4), 1.0), (range(4, 10), 5.0))


@given(st.integers(0, 10))
@settings(max_examples=11)
def test_the_time_left_counts_the_dearer_steps(step: int) -> None:
    numbers = {"batch_size": 1, "learning_rate": 1.0, "warmup_steps": 0, "eval_steps": 1, "save_steps": 1, "seed": 0}
    plan = Plan(steps=10, save_minutes=1.0, optimizer="bert", step_costs=tuple(costs()), **numbers)
    assert plan.cost_until(step) == sum(plan.cost(each) for each in range(step))
    assert plan.cost_until(10) == 34


@given(st.integers(0, 10), st.integers(1, 12))
@settings(max_examples=30)
def test_the_time_left_counts_the_evaluations(step: int, eval_steps: int) -> None:
    numbers = {"batch_size": 1, "learning_rate": 1.0, "warmup_steps": 0, "save_steps": 1, "seed": 0}
    plan = Plan(steps=10, save_minutes=1.0, optimizer="bert", eval_steps=eval_steps, eval_cost=7.0, **numbers)
    evaluated = sum(plan.is_due(each, eval_steps) for each in range(1, step + 1))
    assert plan.cost_until(step) == step + 7.0 * evaluated


def test_a_longer_length_costs_more_than_its_tokens(folders: list[str]) -> None:
    short, long = find_phases(PretrainConfig(**PHASES, data=",".join(folders)))
    tokens = [phase.examples.manifest["tokens"] / len(phase.examples) for phase in (short, long)]
    assert long.step_cost(128) / short.step_cost(128) > tokens[1] / tokens[0]
