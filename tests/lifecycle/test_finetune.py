"""Fine-tuning as people do it: early stopping, several seeds, a grid, another task's model, weighted classes."""

import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import write_reviews

from bertcli.config.recipes import read_recipe, recipe_names
from bertcli.config.training import FinetuneConfig
from bertcli.data.packing.batches import longest_first
from bertcli.data.packing.text_features import balanced_weights
from bertcli.data.packing.windows import WindowRules
from bertcli.data.text.tokenization import load_tokenizer
from bertcli.errors import Interrupted, UserError
from bertcli.families import pretrainable
from bertcli.kernels import updates
from bertcli.kinds.kind import Split
from bertcli.kinds.types import Prediction
from bertcli.lifecycle.evaluate import evaluate
from bertcli.lifecycle.finetune import finetune
from bertcli.lifecycle.finetuning.sweep import name_of, settings_of
from bertcli.lifecycle.report import report
from bertcli.lifecycle.scoring.scores import is_collapsed
from bertcli.lifecycle.scoring.task_model import TaskModel
from bertcli.lifecycle.sources import encode_split, find_source
from bertcli.tasks import TASKS, get_task
from bertcli.tasks.task import Files, Task
from bertcli.training.loop import Training
from bertcli.training.result import TrainingResult
from bertcli.training.run_folder import RunFolder
from tests.support import load, with_loss
from tests.training.test_loop import assert_same_bits, logged, weights

FAST = {"batch_size": 16, "learning_rate": 1e-3, "epochs": 2.0}


@pytest.fixture
def reviews(at_home: Path, tmp_path: Path) -> str:
    return str(write_reviews(tmp_path / "reviews.csv"))


def stop_at_call(patch: pytest.MonkeyPatch, call: int, kill: bool = False) -> None:
    """Ask the loop to stop as Ctrl-C does, or end it at once, at a step counted over all runs."""
    step, calls = Training._step, []

    def watched(self, number, micro_batches, asked):
        calls.append(number)
        if kill and len(calls) == call:
            raise KeyboardInterrupt
        return step(self, number, micro_batches, asked or len(calls) == call)

    patch.setattr(Training, "_step", watched)


def measured(run: str) -> list[dict]:
    return [line for line in RunFolder(Path(run)).metrics() if "metrics" in line]


def test_patience_stops_a_run_that_gets_no_better_and_says_so(
    reviews: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="bertcli")
    options = {**FAST, "epochs": 4.0, "learning_rate": 0.0, "eval_steps": 2, "patience": 3}  # it cannot get better
    run = finetune(reviews, **options, out=str(tmp_path / "run"))
    assert [line["step"] for line in measured(run.run)] == [2, 4, 6, 8]
    assert (run.steps, run.best_step, run.stopped_early) == (8, 2, True)
    assert "stopped early, at step 8 of 27" in caplog.text
    assert "Stopped early" in (tmp_path / "run" / "README.md").read_text()
    with pytest.raises(UserError, match=r"is finished(.|\n)*--patience 6"):
        finetune(resume=True, task="", out=run.run)
    assert TrainingResult.read(tmp_path / "run").steps == 8
    assert finetune(resume=True, task="", out=run.run, patience=4).steps == 10
    whole = finetune(reviews, epochs=1, out=str(tmp_path / "whole"))
    with pytest.raises(UserError, match=r"is finished(.|\n)*--epochs 2$"):
        finetune(resume=True, task="", out=whole.run)
    assert finetune(resume=True, task="", out=whole.run, epochs=2).steps == 2 * whole.steps
    assert f"--epochs is 2.0 from now on; the run in {whole.run} was begun with 1.0" in caplog.text


def test_a_run_that_patience_ends_within_its_first_steps_is_timed(reviews: str, tmp_path: Path) -> None:
    run = finetune(reviews, **{**FAST, "learning_rate": 0.0}, eval_steps=1, patience=1, out=str(tmp_path / "run"))
    assert run.steps == 2
    assert run.tokens_per_second > 0


def test_a_run_is_not_resumed_to_fewer_steps_than_it_has_made(
    reviews: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {**FAST, "epochs": 12.0, "save_steps": 2}
    with monkeypatch.context() as patch:
        stop_at_call(patch, 9)
        with pytest.raises(Interrupted):
            finetune(reviews, **options, out=str(tmp_path / "run"))
    begun = (tmp_path / "run" / "config.yaml").read_text()
    with pytest.raises(UserError, match="steps already, and is asked for"):
        finetune(reviews, resume=True, epochs=0.1, out=str(tmp_path / "run"))
    assert (tmp_path / "run" / "config.yaml").read_text() == begun


@pytest.mark.parametrize(
    "kill", [pytest.param(False, id="interrupted", marks=pytest.mark.torture), pytest.param(True, id="killed")]
)
def test_patience_counts_on_after_a_resume(
    reviews: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kill: bool
) -> None:
    options = {**FAST, "epochs": 12.0, "eval_steps": 3, "patience": 3, "save_steps": 2, "log_steps": 5}
    whole = finetune(reviews, **options, out=str(tmp_path / "whole"))
    assert whole.stopped_early
    assert whole.steps == whole.best_step + 9
    with monkeypatch.context() as patch:
        stop_at_call(patch, whole.best_step + 5, kill)  # after one evaluation that brought nothing
        with pytest.raises((Interrupted, KeyboardInterrupt)):
            finetune(reviews, **options, out=str(tmp_path / "cut"))
    resumed = finetune(reviews, **options, out=str(tmp_path / "cut"), resume=True)
    assert (resumed.steps, resumed.best_step, resumed.metrics) == (whole.steps, whole.best_step, whole.metrics)
    assert_same_bits(whole.run, resumed.run)
    assert logged(resumed.run) == logged(whole.run)
    assert max(line["step"] for line in RunFolder(tmp_path / "cut").metrics() if "loss" in line) == whole.steps
    tensors = Path("checkpoints") / f"step-{whole.steps}" / "tensors.safetensors"
    assert (tmp_path / "cut" / tensors).read_bytes() == (tmp_path / "whole" / tensors).read_bytes()


@pytest.mark.parametrize("precision", ["float32", pytest.param("bfloat16", marks=pytest.mark.torture)])
def test_a_run_that_updates_rows_when_they_are_next_read_has_the_bits_of_one_that_does_so_at_once(
    reviews: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, precision: str
) -> None:
    options = {**FAST, "eval_steps": 3, "save_steps": 2, "micro_batch_tokens": 200, "precision": precision}
    monkeypatch.setattr(updates, "MANY_ROWS", 1)
    with monkeypatch.context() as patch:
        stop_at_call(patch, 6)
        with pytest.raises(Interrupted):
            finetune(reviews, **options, out=str(tmp_path / "cut"))
    resumed = finetune(reviews, **options, out=str(tmp_path / "cut"), resume=True)
    monkeypatch.setattr(updates, "MANY_ROWS", 10**9)
    whole = finetune(reviews, **options, out=str(tmp_path / "whole"))
    assert_same_bits(whole.run, resumed.run)
    assert logged(resumed.run) == logged(whole.run)
    tensors = Path("checkpoints") / f"step-{whole.steps}" / "tensors.safetensors"
    assert (tmp_path / "cut" / tensors).read_bytes() == (tmp_path / "whole" / tensors).read_bytes()


@pytest.mark.parametrize("evaluation", [pytest.param(2, marks=pytest.mark.torture), 5])
def test_a_signal_stops_an_evaluation_at_once_which_is_made_again_by_a_resume(
    reviews: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, evaluation: int
) -> None:
    options = {**FAST, "eval_steps": 3, "log_steps": 2}
    whole = finetune(reviews, **options, out=str(tmp_path / "whole"))
    assert whole.steps == 13
    predict, calls = TaskModel.predict, []

    def interrupted(self: TaskModel, split: Split) -> list[Prediction]:
        calls.append(split)
        if len(calls) == evaluation:
            os.kill(os.getpid(), signal.SIGINT)
        return predict(self, split)

    with monkeypatch.context() as patch:
        patch.setattr(TaskModel, "predict", interrupted)
        with pytest.raises(Interrupted, match=f"Stopped after step {min(3 * evaluation, 13)} of 13"):
            finetune(reviews, **options, out=str(tmp_path / "cut"))
    assert len(measured(str(tmp_path / "cut"))) == evaluation - 1
    resumed = finetune(task="", out=str(tmp_path / "cut"), resume=True)
    assert (resumed.steps, resumed.best_step, resumed.metrics) == (whole.steps, whole.best_step, whole.metrics)
    assert_same_bits(whole.run, resumed.run)
    assert logged(resumed.run) == logged(whole.run)


def test_a_run_stopped_in_its_last_step_is_finished_by_a_resume_from_the_same_data_alone(
    reviews: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: pytest.LogCaptureFixture
) -> None:
    whole = finetune(reviews, **FAST, out=str(tmp_path / "whole"))
    with monkeypatch.context() as patch:
        stop_at_call(patch, whole.steps)
        with pytest.raises(Interrupted):
            finetune(reviews, **FAST, out=str(tmp_path / "cut"))
    assert not RunFolder(tmp_path / "cut").is_finished
    rows = Path(reviews).read_text()
    Path(reviews).write_text(rows + "another,pos\n")
    with pytest.raises(UserError, match=r"The data of the run in `.*cut` have changed since it was begun"):
        finetune(task="", out=str(tmp_path / "cut"), resume=True)
    later = finetune(reviews, **FAST, from_=whole.run, seed=7, out=str(tmp_path / "later"))
    assert f"{whole.run} has learnt from examples that are scored here" in said.text
    assert "has learnt from examples that are scored here" in (Path(later.run) / "README.md").read_text()
    evaluate(reviews, model=whole.run)
    warning = f"reviews.csv has changed since {whole.run} was trained on it: what is scored may hold training examples"
    assert warning in said.text
    Path(reviews).write_text(rows)
    said.clear()
    evaluate(reviews, model=whole.run)
    assert "has changed" not in said.text
    resumed = finetune(task="", out=str(tmp_path / "cut"), resume=True)
    assert (resumed.steps, resumed.metrics, resumed.losses) == (whole.steps, whole.metrics, whole.losses)


@pytest.mark.parametrize("options", [{}, {"limit_dev": 8}])
def test_a_start_that_has_learnt_what_is_scored_is_named_whatever_the_file_is_called(
    reviews: str, tmp_path: Path, said: pytest.LogCaptureFixture, options: dict[str, int]
) -> None:
    rows = [f"the cat sat {number} times,{('pos', 'neg')[number % 2]}" for number in range(100)]
    for name in ("own.csv", "other.csv"):
        Path(tmp_path, name).write_text("\n".join(["text,label", *rows]))
    earlier = finetune(str(tmp_path / "own.csv"), **FAST, out=str(tmp_path / "earlier"))
    warning = f"{earlier.run} has learnt from examples that are scored here"
    for seed, count in ((0, 0), (7, 1)):  # of the split
        said.clear()
        finetune(str(tmp_path / "other.csv"), **FAST, **options, seed=seed, from_=earlier.run, dry_run=True)
        assert said.text.count(warning) == count


@pytest.fixture(scope="module")
def three_seeds(home: Path, tmp_path_factory: pytest.TempPathFactory) -> TrainingResult:
    folder = tmp_path_factory.mktemp("seeds")
    file = write_reviews(folder / "reviews.csv")
    model = str(home / "runs" / "pretrain-tiny")
    return finetune(str(file), **FAST, from_=model, seed=3, seeds=3, out=str(folder / "run"))


def test_seeds_give_median_spread_and_the_best_model(three_seeds: TrainingResult) -> None:
    run = Path(three_seeds.run)
    assert [part["setting"]["seed"] for part in three_seeds.runs] == [3, 4, 5]
    scores = [part["metrics"]["accuracy"] for part in three_seeds.runs]
    best = next(part for part in three_seeds.runs if part["best"])
    assert three_seeds.metrics == best["metrics"]
    assert three_seeds.seed == best["setting"]["seed"]
    assert_same_bits(run, best["run"])
    row = next(row for row in three_seeds.spread if row["metric"] == "accuracy")
    assert (row["median"], row["minimum"], row["maximum"]) == pytest.approx(
        (np.median(scores), min(scores), max(scores))
    )
    assert row["standard_deviation"] == pytest.approx(np.std(scores, ddof=1), abs=1e-5)
    card = (run / "README.md").read_text()
    assert "standard deviation" in card
    assert "| 4 |" in card
    assert three_seeds == TrainingResult.read(run)
    assert (
        evaluate(RunFolder(run).config["text"] and str(run.parent / "reviews.csv"), model=str(run)).examples == 12
    )  # the held-out tenth
    for part in three_seeds.runs:
        assert (Path(part["run"]) / "model").exists()
        assert not (Path(part["run"]) / "checkpoints").exists()


def test_each_seed_of_a_sweep_is_scored_on_the_dev_set_of_all(
    three_seeds: TrainingResult, said: pytest.LogCaptureFixture
) -> None:
    file = str(Path(three_seeds.run).parent / "reviews.csv")
    for part in three_seeds.runs:
        found = evaluate(file, model=part["run"])
        assert found.metrics == pytest.approx(part["metrics"], abs=1e-3)
    assert "drawn by seed 4" not in said.text
    assert "has changed since" not in said.text
    page = str(Path(three_seeds.run).parent / "comparison.html")
    assert report([part["run"] for part in three_seeds.runs], out=page).comparison is not None
    config = RunFolder(Path(three_seeds.run)).config
    assert None not in [config[name] for name in ("batch_size", "epochs", "learning_rate")]
    assert "Its data were drawn by seed 3" in Path(three_seeds.runs[1]["run"], "README.md").read_text()
    assert "so that new texts may score lower" in Path(three_seeds.run, "README.md").read_text()


def test_seeds_differ_in_weights_but_see_the_same_examples(three_seeds: TrainingResult) -> None:
    one, other = (weights(part["run"])["classifier.weight"] for part in three_seeds.runs[:2])
    assert not torch.equal(one, other)
    lengths = {len((Path(part["run"]) / "predictions.jsonl").read_text().splitlines()) for part in three_seeds.runs}
    assert lengths == {12}


@pytest.mark.parametrize(
    "kill", [pytest.param(False, id="interrupted", marks=pytest.mark.torture), pytest.param(True, id="killed")]
)
def test_a_sweep_resumes_within_the_run_that_was_stopped(
    three_seeds: TrainingResult, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kill: bool
) -> None:
    file = str(Path(three_seeds.run).parent / "reviews.csv")
    out, each = str(tmp_path / "cut"), int(three_seeds.steps)
    options = {**FAST, "from_": str(home / "runs" / "pretrain-tiny"), "seed": 3, "seeds": 3, "save_steps": 2}
    with monkeypatch.context() as patch:
        stop_at_call(patch, each + each // 2, kill)
        with pytest.raises(Interrupted, match="seed-4") as stopped:
            finetune(file, **options, out=out)
    assert stopped.value.hint.endswith(f"--resume --out {out}")
    del stopped
    first = (Path(out) / "seed-3" / "result.json").stat().st_mtime_ns
    with pytest.raises(UserError, match="is a part of the run"):
        finetune(task="", resume=True, out=f"{out}/seed-4")
    resumed = finetune(task="", resume=True, out=out)
    assert (Path(out) / "seed-3" / "result.json").stat().st_mtime_ns == first
    for whole, part in zip(three_seeds.runs, resumed.runs, strict=True):
        assert_same_bits(whole["run"], part["run"])
    assert_same_bits(three_seeds.run, resumed.run)
    assert resumed.spread == three_seeds.spread
    with pytest.raises(UserError, match=r"is finished\.\nStart a new one"):
        finetune(task="", resume=True, out=out)
    with pytest.raises(UserError, match=r"--epochs is 9\.0"):
        finetune(task="", resume=True, out=out, epochs=9)


def test_a_limit_draws_other_examples_by_another_seed(shared: Path) -> None:
    drawn = [
        find_source("sst2", str(shared / "data"), seed=seed).read("train", limit=50).examples for seed in (0, 0, 7)
    ]
    assert drawn[0] == drawn[1] != drawn[2]


def test_a_limit_of_dev_takes_the_same_examples_for_every_seed_and_is_known_to_the_report(
    reviews: str, tmp_path: Path
) -> None:
    write_reviews(tmp_path / "dev.csv", 40, seed=1)
    options = {"epochs": 1, "batch_size": 16, "limit_dev": 8, "baseline": False}
    files = f"{reviews},{tmp_path / 'dev.csv'}"
    runs = [Path(finetune(files, **options, seed=seed, out=str(tmp_path / f"{seed}")).run) for seed in (0, 5)]
    digests = [RunFolder(run).config["data_digests"]["dev"] for run in runs]
    assert digests[0] == digests[1]
    assert len((runs[0] / "predictions.jsonl").read_text().splitlines()) == 8
    assert report(str(runs[0])).runs[0]["missing"] == []


def test_a_run_that_collapsed_to_one_class_is_flagged(reviews: str, tmp_path: Path) -> None:
    run = finetune(reviews, epochs=1, batch_size=16, learning_rate=0.0, seeds=2, out=str(tmp_path / "run"))
    assert [part["collapsed"] for part in run.runs] == [True, True]
    assert run.spread[0]["collapsed"] == 2
    assert run.collapsed
    assert "**Collapsed**" in (tmp_path / "run" / "README.md").read_text()
    Path(reviews).unlink()
    assert "It has learnt nothing and always gives the same answer: on dev its accuracy" in report(run.run).markdown
    assert json.loads((tmp_path / "run" / "result.json").read_text())["runs"][0]["collapsed"]


def test_the_advice_after_a_run_that_has_not_learnt_repeats_its_other_options(reviews: str, tmp_path: Path) -> None:
    options = {"epochs": 1, "batch_size": 8, "max_seq_length": 24, "limit": 32}
    run = finetune(reviews, **options, learning_rate=0.0, baseline=False, out=str(tmp_path / "run"))
    for option in ("--batch-size 8", "--max-seq-length 24", "--limit 32", "--no-baseline"):
        assert option in run.advice
    assert not {"--learning-rate", "--epochs", "--out"} & set(run.advice.split())


@pytest.mark.parametrize(
    ("kind", "same", "another"),
    [
        ("tag", [{"tags": ["O", "O"]}, {"tags": ["O"]}], {"tags": ["B-PER"]}),
        ("multilabel", [{"labels": ["x"]}, {"labels": ["x"]}], {"labels": []}),
        ("span", [{"answer": ""}, {"answer": ""}], {"answer": "here"}),
    ],
)
def test_tags_sets_of_labels_and_answers_collapse_too(kind: str, same: list[dict], another: dict) -> None:
    task = Task("own.csv", kind, Files(), ("", None), ("f1",))
    assert is_collapsed(task, same)
    assert not is_collapsed(task, [*same, another])


def test_fewer_epochs_than_usual_are_advised_to_be_left_out(reviews: str, tmp_path: Path) -> None:
    new = {"from_": "scratch", "size": "tiny", "tokenizer": "bert-books", "baseline": False}
    run = finetune(reviews, **new, epochs=1, out=str(tmp_path / "run"))
    assert run.advice.startswith("bert finetune")
    assert "--epochs" not in run.advice


def test_the_papers_grid_is_all_of_its_settings_but_what_is_given() -> None:
    settings = settings_of(FinetuneConfig(grid="paper"))
    assert len(settings) == 18
    assert settings[0] == {"batch_size": 16, "learning_rate": 5e-5, "epochs": 2}
    assert settings[-1] == {"batch_size": 32, "learning_rate": 2e-5, "epochs": 4}
    with_seeds = settings_of(FinetuneConfig(grid="paper", seeds=2, seed=7, epochs=3))
    assert len(with_seeds) == 12
    assert with_seeds[1] == {"batch_size": 16, "learning_rate": 5e-5, "seed": 8}
    assert settings_of(FinetuneConfig()) == []
    assert name_of(settings[0]) == "batch-size-16-learning-rate-5e-05-epochs-2"
    large = settings_of(FinetuneConfig(seed=12345678, seeds=2))
    assert [name_of(setting) for setting in large] == ["seed-12345678", "seed-12345679"]
    with pytest.raises(UserError, match="nothing to try"):
        settings_of(FinetuneConfig(grid="paper", **FAST))


def test_a_grid_keeps_the_best_on_dev_and_its_spread_by_setting(reviews: str, tmp_path: Path) -> None:
    options = {"batch_size": 16, "learning_rate": 1e-3, "limit": 32}
    run = finetune(reviews, grid="paper", seeds=2, **options, out=str(tmp_path / "run"))
    assert len(run.runs) == 6
    assert {row["setting"]["epochs"] for row in run.spread} == {2, 3, 4}
    best = next(part for part in run.runs if part["best"])
    assert best["metrics"]["accuracy"] == max(part["metrics"]["accuracy"] for part in run.runs)
    assert_same_bits(run.run, best["run"])
    assert (tmp_path / "run" / "epochs-4-seed-1" / "model").exists()
    assert RunFolder(tmp_path / "run").config["epochs"] is None
    with pytest.raises(UserError, match="is finished"):
        finetune(reviews, resume=True, out=str(tmp_path / "run"))


def test_a_dry_run_of_a_sweep_names_its_runs_and_writes_nothing(
    reviews: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="bertcli")
    finetune(reviews, seeds=2, dry_run=True, out=str(tmp_path / "run"))
    assert "seed-0, seed-1" in caplog.text
    assert not (tmp_path / "run").exists()


def test_balanced_weights_are_those_of_scikit_learn() -> None:
    from sklearn.utils.class_weight import compute_class_weight

    labels = np.array([0, 2, 2, 2, 2, 0, 2])
    expected = compute_class_weight("balanced", classes=np.array([0, 2]), y=labels)
    assert balanced_weights(labels, 4) == pytest.approx([expected[0], 0, expected[1], 0])


def test_weighted_classes_give_torchs_weighted_mean_however_the_batch_is_cut(reviews: str) -> None:
    tokenizer = load_tokenizer("runs/pretrain-tiny/model")
    source = find_source(reviews, None, {})
    encoded = encode_split(source.task, source.read("train"), tokenizer, WindowRules(128, 128, 0)).features
    class_weights = np.array([0.25, 3], dtype=np.float32)
    features = replace(encoded, class_weights=class_weights)
    labels = {"num_labels": 2, "id2label": {0: "bad", 1: "good"}}
    objective = with_loss(load("classify", "runs/pretrain-tiny/model", labels), "classify").eval()
    rows = longest_first(np.arange(40), features.lengths)
    parts = [features.pack(part, 0) for part in (rows[:7], rows[7:8], rows[8:])]
    total = sum(batch.counts["loss"] for batch in parts)
    ours = sum(objective(batch)["loss"] for batch in parts) / total
    whole = encoded.pack(rows, 0)
    logits = objective.outputs(whole)["logits"]
    theirs = torch.nn.functional.cross_entropy(logits, whole.labels["labels"], torch.from_numpy(class_weights))
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-5)


def test_weighted_classes_are_learnt_and_stand_in_the_card(
    reviews: str, at_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = Path(reviews).read_text().splitlines()
    rare = [row for row in rows if row.endswith(",bad")][:10]
    Path(reviews).write_text("\n".join([rows[0], *(row for row in rows if row.endswith(",good")), *rare]) + "\n")
    plain = finetune(reviews, **FAST, out=str(tmp_path / "plain"))
    weighted = finetune(reviews, **FAST, class_weights="balanced", out=str(tmp_path / "weighted"))
    assert plain.losses != weighted.losses
    card = (tmp_path / "weighted" / "README.md").read_text()
    good = sum(row.endswith(",good") for row in rows)
    trained = {"good": good - round(good / 10), "bad": 9}
    for label, count in trained.items():
        assert f"{label} {count} (weight {sum(trained.values()) / (2 * count):.3g})" in card
        assert f"{label} {count}" in (tmp_path / "plain" / "README.md").read_text()


def test_the_papers_values_are_the_defaults_of_each_task_and_of_its_recipe() -> None:
    glue, squad = (32, 2e-5, 3, 128), (32, 5e-5, 3, 384)  # section 4.1, with the rate of the original README; 4.2
    expected = {"squad": squad, "squad_v2": (48, 5e-5, 2, 384), "swag": (16, 2e-5, 3, 128)}  # 4.3, 4.4
    for name, task in TASKS.items():
        if name.startswith("glue/") and not task.learnt_as:
            expected[name] = glue
    names = ("batch_size", "learning_rate", "epochs", "max_seq_length")
    for name, values in expected.items():
        assert tuple(getattr(TASKS[name], key) for key in names) == values, name
    others = ("pretrain", "distill", "reproduce", *pretrainable())  # folders of other commands, and of other families
    recipes = [read_recipe(name) for name in recipe_names() if name.partition("/")[0] not in others]
    assert len(recipes) > 8
    for recipe in recipes:
        task = get_task(recipe["task"])
        assert {key: getattr(task, key) for key in names} == {key: recipe[key] for key in names}, task.name
    assert FinetuneConfig().warmup_proportion == 0.1


@pytest.mark.several_processes
@pytest.mark.torture
def test_two_processes_make_the_sweep_of_one(reviews: str, tmp_path: Path) -> None:
    options = {"epochs": 8.0, "batch_size": 16, "learning_rate": 1e-3, "eval_steps": 4, "patience": 2, "seeds": 2}
    options |= {
        "class_weights": "balanced",
        "micro_batch_tokens": 100,
        "precision": "float32",
        "from": "runs/pretrain-tiny",
    }
    one = finetune(reviews, **options, out=str(tmp_path / "one"))
    two = finetune(reviews, **options, processes=2, out=str(tmp_path / "two"))
    assert two.spread == one.spread
    for ours, theirs in zip(two.runs, one.runs, strict=True):
        assert ours["steps"] == theirs["steps"] < 54
        first, second = weights(ours["run"]), weights(theirs["run"])
        for name in first:
            torch.testing.assert_close(first[name], second[name], atol=1e-4, rtol=1e-3)


PARAGRAPHS = [
    {
        "context": f"the {animal} sat on the mat near the {place}",
        "qas": [
            {"id": f"{number}-{at}", "question": f"the {what}", "answers": [{"text": what, "answer_start": at}]}
            for what, at in ((animal, 4), (place, 29))
        ],
    }
    for number, (animal, place) in enumerate([("cat", "tree"), ("dog", "house")] * 12)
]
OWN = {
    "classes.csv": "text,label\n" + "the cat sat,yes\na dog,no\n" * 12,
    "values.csv": "text,score\n" + "the cat sat,0.5\na dog,1.5\na red cat,2.25\n" * 8,
    "several.jsonl": '{"text": "the cat sat", "label": ["a", "b"]}\n{"text": "a dog", "label": ["b"]}\n' * 12,
    "choices.csv": "text,choice_a,choice_b,label\n" + "the cat,sat down,ate,0\nthe dog ran,off,on the mat,1\n" * 12,
    "tags.conll": "the O\ncat B-X\nsat O\n\na O\ndog B-X\n\n" * 12,
    "frozen.conll": "the O\ncat B-X\nsat O\n\na O\ndog B-X\n\n" * 12,
    "spans.json": json.dumps({"version": "1.1", "data": [{"title": "t", "paragraphs": PARAGRAPHS}]}),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [*(name for name in OWN if name != "frozen.conll"), pytest.param("frozen.conll", marks=pytest.mark.torture)]
)
def test_of_each_kind_accumulation_gives_what_one_pass_gives_at_the_default_dropout(
    name: str, at_home: Path, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(OWN[name])
    options = {"from": "runs/pretrain-tiny", "epochs": 3.0, "batch_size": 12, "learning_rate": 1e-3, "baseline": False}
    runs = [
        finetune(
            str(tmp_path / name),
            **options,
            frozen=name.startswith("frozen"),
            precision="float32",
            micro_batch_tokens=tokens,
            out=str(tmp_path / f"{tokens}"),
        )
        for tokens in (10_000, 20)
    ]
    whole, cut = ([line["loss"] for line in RunFolder(Path(run.run)).metrics() if "loss" in line] for run in runs)
    assert cut == pytest.approx(whole, abs=1e-5)
    first, second = (weights(run.run) for run in runs)
    for key in first:
        torch.testing.assert_close(second[key], first[key], atol=1e-4, rtol=0, msg=lambda text, k=key: f"{k}: {text}")


def test_weights_are_only_for_classes(at_home: Path, tmp_path: Path) -> None:
    (tmp_path / "values.csv").write_text("text,score\n" + "the cat,0.5\nthe dog,1.5\n" * 20)
    with pytest.raises(UserError, match="is for classification"):
        finetune(str(tmp_path / "values.csv"), class_weights="balanced", out=str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


@pytest.fixture(scope="module")
def three_labels(home: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A run of three labels, as of MNLI."""
    folder = tmp_path_factory.mktemp("three")
    rows = [f"the {word} cat,{label}" for label, word in (("no", "old"), ("yes", "green"), ("neither", "slowly"))] * 12
    (folder / "three.csv").write_text("text,label\n" + "\n".join(rows) + "\n")
    model = str(home / "runs" / "pretrain-tiny")
    return finetune(str(folder / "three.csv"), from_=model, batch_size=16, out=str(folder / "run")).run


@pytest.mark.parametrize(
    ("rows", "problem", "head_is_new"),
    [
        ("the cat,good\nthe dog,bad\n" * 12, "single_label_classification", True),  # as RTE and MRPC
        ("the cat,1.5\nthe dog,0.25\n" * 12, "regression", True),  # as STS-B
        ("the cat,a\nthe dog,b\nthe tree,c\n" * 12, "single_label_classification", True),  # as many, but others
        ("the cat,no\nthe dog,yes\nthe tree,neither\n" * 12, "single_label_classification", False),
    ],
    ids=["two labels", "a number", "three other labels", "the same labels"],
)
def test_a_model_of_another_task_gives_its_encoder_and_pooler_and_not_its_head(
    three_labels: str,
    at_home: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    rows: str,
    problem: str,
    head_is_new: bool,
) -> None:
    caplog.set_level("INFO", logger="bertcli")
    (tmp_path / "new.csv").write_text("text,label\n" + rows)
    options = {"from_": three_labels, "learning_rate": 0.0, "epochs": 1, "batch_size": 16}
    run = finetune(str(tmp_path / "new.csv"), **options, out=str(tmp_path / "run")).run
    before, after = weights(three_labels), weights(run)
    for name in before:
        if name.startswith("bert."):
            assert torch.equal(before[name], after[name]), name
    assert "bert.pooler.dense.weight" in after
    said = "left out, as it is of another task: classifier"
    assert (said in caplog.text) == head_is_new
    assert torch.equal(before["classifier.weight"], after["classifier.weight"]) != head_is_new
    assert json.loads((Path(run) / "model" / "config.json").read_text())["problem_type"] == problem
    back = finetune(
        str(Path(three_labels).parent / "three.csv"), **{**options, "from_": run}, out=str(tmp_path / "back")
    )
    assert json.loads((Path(back.model) / "config.json").read_text())["problem_type"] == "single_label_classification"
    assert evaluate(str(Path(three_labels).parent / "three.csv"), model=back.run).examples == 4
