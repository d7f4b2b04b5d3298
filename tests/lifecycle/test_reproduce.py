"""An experiment is planned, run once however many share its folder, and shown beside the paper's numbers."""

import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import write_corpus

from bertcli.config.reproduce import ReproduceConfig
from bertcli.errors import Interrupted, UserError
from bertcli.lifecycle.pretrain import pretrain
from bertcli.lifecycle.report import report
from bertcli.lifecycle.reproduce import command_to_continue, reproduce
from bertcli.lifecycle.reproducing import parts, running
from bertcli.lifecycle.reproducing.result import Reproduction
from bertcli.tasks.experiments import EXPERIMENTS
from bertcli.training.loop import Training

ROWS = [
    (f"the cat sat {n}", f"the {word} cat sat", label)
    for n in range(24)
    for word, label in (("old", "entailment"), ("no", "not_entailment"))
]
TINY = {"size": "tiny", "steps": 10, "max_seq_length": 32, "vocab_size": 120, "epochs": 1, "tasks": ["glue/rte"]}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of official files with one small task, and a text."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "glue" / "RTE").mkdir(parents=True)
    for split in ("train", "dev"):
        lines = ["index\tsentence1\tsentence2\tlabel", *("\t".join((str(n), *row)) for n, row in enumerate(ROWS))]
        (folder / "glue" / "RTE" / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    write_corpus(folder / "corpus.txt")
    (folder / "recipe.yaml").write_text("batch_size: 8\nlearning_rate: 1e-3\n")
    return folder


@pytest.fixture
def finetuning(data: Path, home: Path) -> dict[str, Any]:
    """The options of a table without pre-training."""
    model = str(home / "runs" / "pretrain-tiny")
    return {"from_": [model], "tasks": ["glue/rte"], "epochs": 1, "max_seq_length": 32, "data_dir": str(data)}


@pytest.fixture(scope="module")
def table_5(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Reproduction:
    """Table 5 at the smallest size."""
    out = tmp_path_factory.mktemp("reproduced") / "table-5"
    return reproduce("table-5", out=str(out), seeds=2, **tiny(data))


def tiny(data: Path) -> dict[str, Any]:
    """The options of the smallest experiment."""
    text, recipe = [str(data / "corpus.txt")], str(data / "recipe.yaml")
    return {**TINY, "text": text, "pretrain_recipe": recipe, "data_dir": str(data)}


def started(count: int, **options: Any) -> list[BaseProcess]:
    """Processes that fine-tune for Table 1, of a server that has imported all: one that has trained cannot be forked."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["bertcli.lifecycle.finetuning.run", "bertcli.lifecycle.reproducing.estimate"])
    processes = [context.Process(target=reproduce, args=("table-1",), kwargs=options) for _ in range(count)]
    for process in processes:
        process.start()
    return processes


def done_in(out: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in out.glob("finetuned/*/part.json")}


def wait_for(is_there: Callable[[], object]) -> None:
    for _ in range(1200):
        if is_there():
            return
        time.sleep(0.05)
    raise AssertionError("it did not come")


def test_the_table_has_the_papers_numbers_and_ours(table_5: Reproduction) -> None:
    assert table_5.systems == ["BERT base", "No NSP", "LTR & No NSP", "LTR & No NSP + BiLSTM"]
    assert table_5.paper["rows"]["BERT base"] == [84.4, 88.4, 86.7, 92.7, 88.5]
    assert all(len(cell["scores"]) == 2 and cell["paper"] is None for cell in table_5.cells)
    pairs = [(each["row"], each["beside"]) for each in table_5.comparisons]
    assert pairs == [*zip(table_5.systems[1:], table_5.systems, strict=False)]
    for each in table_5.comparisons:
        low, high = each["confidence_interval"]
        assert low <= each["difference"] <= high
        assert each["significant"] == (low > 0 or high < 0)


def test_each_distinct_model_is_pretrained_once(table_5: Reproduction) -> None:
    trained = {cost["title"]: cost["count"] for cost in table_5.costs if "pre-train" in cost["title"]}
    assert trained == {"pre-train BERT base": 1, "pre-train No NSP": 1, "pre-train LTR & No NSP": 1}
    assert len([*Path(table_5.folder).glob("pretrained/*/part.json")]) == 3
    assert [*Path(table_5.folder, "claims").iterdir()] == []


def test_another_experiment_in_the_folder_takes_the_same_pretrained_models(
    table_5: Reproduction, data: Path, monkeypatch: pytest.MonkeyPatch, said: pytest.LogCaptureFixture
) -> None:
    options = {**tiny(data), "out": table_5.folder}
    plan = reproduce("figure-5", dry_run=True, seeds=2, **options).plan
    assert [(each["title"], each["done"]) for each in plan if "pre-train" in each["title"]] == [
        ("pre-train masked LM", 1),
        ("pre-train left-to-right", 1),
    ]
    again = reproduce("table-5", seeds=2, **options)
    assert again.cells == table_5.cells
    assert "1 of 18" not in said.text


def test_a_page_shows_the_folder(table_5: Reproduction, capsys: pytest.CaptureFixture[str]) -> None:
    found = report(table_5.folder)
    page = Path(found.report).read_text()
    for words in ("LTR &amp; No NSP + BiLSTM", "84.4", "not in the paper", "bert reproduce table-5", "took in all"):
        assert words in page
    assert "| LTR & No NSP" in found.markdown.replace("&amp;", "&")
    assert json.loads(json.dumps(found.to_json()))["runs"][0]["experiment"] == "table-5"
    with pytest.raises(UserError, match="not the folder of a run"):
        report(str(Path(table_5.folder).parent))


def test_reproductions_in_several_folders_stand_on_one_page(table_5: Reproduction, tmp_path: Path) -> None:
    kept = json.loads(Path(table_5.folder, "table-5.json").read_text())
    (tmp_path / "table-5.json").write_text(json.dumps({**kept, "folder": "runs/mini"}))
    found = report([table_5.folder, str(tmp_path)], out=str(tmp_path / "both.html"))
    page = Path(found.report).read_text()
    assert f"Table 5 in {table_5.folder}" in page
    assert "Table 5 in runs/mini" in page
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.yaml").write_text("task: glue/sst2")
    with pytest.raises(UserError, match="is a reproduction"):
        report([table_5.folder, str(run)])


def test_a_dry_run_shows_the_plan_and_writes_nothing(
    workspace: Path, data: Path, said: pytest.LogCaptureFixture
) -> None:
    found = reproduce("table-6", dry_run=True, **tiny(data))
    assert "pre-train 24/1024/16" in said.text
    assert "At this size 3/768/12 and 6/768/12 are the same model." in found.notes
    assert "in all" in said.text
    assert found.columns == ["perplexity", "rte accuracy"]
    assert all(each["seconds"] >= 0 for each in found.plan)
    assert [*workspace.iterdir()] == []


@pytest.mark.parametrize(
    ("experiment", "options", "flags"),
    [
        ("table-1", {"steps": 20, "size": "tiny"}, "--size, --steps have no effect: table-1 pre-trains nothing."),
        ("figure-5", {"flops": 1e9}, "--flops has no effect: figure-5 pre-trains its own models."),
        ("family", {"steps": 20}, "--steps has no effect: family pre-trains its own models for --flops 5e+14."),
    ],
)
def test_options_without_effect_are_said(
    experiment: str, options: dict[str, object], flags: str, data: Path, said: pytest.LogCaptureFixture
) -> None:
    found = reproduce(experiment, data_dir=str(data), tasks=["glue/rte"], dry_run=True, **options)
    assert flags in found.notes
    assert any(note.startswith("One seed each: intervals are of the examples alone") for note in found.notes)
    assert flags in said.text


def test_rows_are_named_as_in_the_paper_or_as_in_our_table() -> None:
    table_7 = EXPERIMENTS["table-7"]
    for name in ("BERT base", "fine-tuned", "minilm, fine-tuned"):
        assert table_7.with_rows([name]).systems == table_7.systems[:1]


def test_what_has_no_data_is_left_out_and_said(data: Path, said: pytest.LogCaptureFixture) -> None:
    found = reproduce("table-1", data_dir=str(data), from_=["bert-books"], dry_run=True)
    assert found.columns == ["rte accuracy", "average"]
    assert "glue/mnli is left out" in said.text
    with pytest.raises(UserError, match="has no data for table-4"):
        reproduce("table-4", data_dir=str(data), from_=["bert-books"], dry_run=True)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"experiment": "table-9"}, "table-9"),
        ({"experiment": ""}, "Which experiment"),
        ({"experiment": "table-5", "tasks": ["glue/rt"]}, "Unknown task"),
        ({"experiment": "table-5", "tasks": ["glue/rte"], "pretrain_recipe": "nothing"}, "Unknown recipe"),
        ({"experiment": "table-1", "from_": ["runs/none"]}, "no model"),
        ({"experiment": "figure-5", "tasks": ["glue/rte"], "steps": 2}, "--steps 2 has no step at 20% of them"),
        ({"experiment": "figure-5", "tasks": ["glue/rte"], "steps": 3}, "--steps 3 has one step at 20% and at 40%"),
        (
            {"experiment": "figure-5", "tasks": ["glue/rte"], "steps": 2, "columns": ["glue/rte, 80 %"]},
            "--steps 2 has one step at 100% and at 80%",
        ),
        ({"experiment": "table-7", "tasks": ["glue/rte"], "from_": ["bert-books"]}, "--tasks conll2003$"),
        (
            {"experiment": "table-5", "tasks": ["glue/rte"], "max_seq_length": 600},
            "longer than the 512 positions of BERT",
        ),
        ({"experiment": "table-5", "tasks": ["glue/rte"], "tokenizer": "nosuch"}, "nosuch"),
        ({"experiment": "table-5", "tasks": ["glue/rte"], "phases": "128:0.9"}, "shares that do not sum to 1"),
        (
            {"experiment": "table-5", "tasks": ["glue/rte"], "phases": "64:0.9,128:0.1", "max_seq_length": 64},
            "--max-seq-length 64 is not the longest of the phases",
        ),
    ],
)
def test_a_wrong_request_is_refused(options: dict, what: str, data: Path, workspace: Path) -> None:
    with pytest.raises(UserError, match=what):
        reproduce(**{"data_dir": str(data), **options})
    assert [*workspace.iterdir()] == []


def test_a_file_is_not_the_folder_of_a_reproduction(data: Path, workspace: Path) -> None:
    Path("recipe.yaml").write_text("batch_size: 8")
    with pytest.raises(UserError, match=r"`recipe\.yaml` is not a folder"):
        reproduce("table-5", out="recipe.yaml", dry_run=True, **{**tiny(data), "pretrain_recipe": "pretrain/laptop"})


@pytest.mark.parametrize(
    ("experiment", "line", "what"),
    [
        ("table-8", "mask_shares: 100,0,0", "sets --mask-shares, which table-8 decides for each row"),
        ("table-5", "layers: 3", "sets --layers"),
        ("table-6", "objective: mlm", "sets --objective"),
        ("table-5", "resume: true", "sets --resume"),
        ("table-5", "flops: 1e9", "sets --flops"),
        ("family", "phases: 16:0.5,32:0.5", "sets --phases"),
        ("table-5", "span_mask: true", "left-to-right masks nothing"),
        ("table-5", "memory: 8", "has no memory"),
        ("table-5", "batch: 8", "batch"),
    ],
)
def test_a_recipe_cannot_change_what_rows_are_compared_by(
    experiment: str, line: str, what: str, data: Path, workspace: Path
) -> None:
    Path("recipe.yaml").write_text(f"{line}\n")
    with pytest.raises(UserError, match=what):
        reproduce(experiment, dry_run=True, **{**tiny(data), "pretrain_recipe": "recipe.yaml"})


def test_what_gives_way_in_a_recipe_is_said_and_its_phases_are_taken(
    data: Path, workspace: Path, said: pytest.LogCaptureFixture
) -> None:
    recipe = "size: mini\nsteps: 500\nbatch_size: 8\nphases: 16:0.8,32:0.2\n"
    Path("recipe.yaml").write_text(recipe)
    options = {**tiny(data), "pretrain_recipe": "recipe.yaml", "rows": ["BERT base"]}
    found = reproduce("table-5", **options)
    assert "In place of what the recipe recipe.yaml says: --size tiny, not mini, --steps 10, not 500." in found.notes
    assert any("inputs of at most 32 tokens (16:0.8,32:0.2)" in note for note in found.notes)
    (run,) = Path(found.folder).glob("pretrained/*/config.yaml")
    lengths = [
        json.loads(Path(each, "manifest.json").read_text())
        for each in yaml.safe_load(run.read_text())["data"].split(",")
    ]
    assert [each["options"]["max_seq_length"] for each in lengths] == [16, 32]


@pytest.mark.torture
def test_two_processes_in_one_folder_run_each_part_once(tmp_path: Path, finetuning: dict[str, Any]) -> None:
    out = tmp_path / "out"
    processes = started(2, **finetuning, seeds=4, out=str(out))
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    logs = [path.read_text() for path in out.glob("finetuned/*.log.txt")]
    assert len(logs) == len(done_in(out)) == 4
    assert all(log.count("there is nothing to resume") == 1 for log in logs)


@pytest.mark.slow
def test_a_killed_process_is_continued_by_the_same_command(tmp_path: Path, finetuning: dict[str, Any]) -> None:
    out = tmp_path / "out"
    (process,) = started(1, **finetuning, seeds=3, out=str(out))
    wait_for(lambda: done_in(out) and len([*out.glob("finetuned/*.log.txt")]) > len(done_in(out)))
    process.kill()
    process.join()
    before = done_in(out)
    found = reproduce("table-1", **finetuning, seeds=3, out=str(out))
    after = done_in(out)
    assert len(after) == 3 > len(before)
    assert before.items() <= after.items()
    assert [len(cell["scores"]) for cell in found.cells] == [3, 0]  # RTE, and the average of all tasks


def test_the_command_that_continues_has_switches_without_a_value(tmp_path: Path) -> None:
    config = ReproduceConfig(experiment="table-5", split_sentences=True, tasks=["glue/sst2"])
    assert command_to_continue(config, tmp_path).endswith(f" --tasks glue/sst2 --split-sentences --out {tmp_path}")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interruption_names_the_command_that_continues(
    tmp_path: Path, finetuning: dict[str, Any], monkeypatch: pytest.MonkeyPatch, number: int, code: int
) -> None:
    monkeypatch.setattr(running.bertcli, "finetune", lambda **_: os.kill(os.getpid(), number), raising=False)
    with pytest.raises(Interrupted, match="glue/rte: Interrupted") as stopped:
        reproduce("table-1", **finetuning, out=str(tmp_path / "my out"))
    assert stopped.value.exit_code == code
    assert stopped.value.hint.startswith("Continue: bert reproduce table-1 ")
    assert stopped.value.hint.endswith(f"--out '{tmp_path}/my out'")


def test_a_part_that_is_stopped_in_its_training_ends_the_reproduction_with_its_code(
    tmp_path: Path, finetuning: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop_and_log(training: Training, saves_now: bool) -> tuple[bool, bool]:
        os.kill(os.getpid(), signal.SIGTERM)
        return log(training, saves_now)

    log = Training._log_if_due
    monkeypatch.setattr(Training, "_log_if_due", stop_and_log)
    with pytest.raises(Interrupted, match=r"glue/rte: Stopped after step .* checkpoint is kept") as stopped:
        reproduce("table-1", **finetuning, out=str(tmp_path / "out"))
    assert stopped.value.exit_code == 143
    assert stopped.value.hint.startswith("Continue: bert reproduce table-1 ")


def test_parts_that_have_lost_predictions_or_scores_are_said(
    tmp_path: Path, finetuning: dict[str, Any], home: Path, said: pytest.LogCaptureFixture
) -> None:
    other = shutil.copytree(home / "runs" / "pretrain-tiny" / "model", tmp_path / "other")
    options = {**finetuning, "from_": [*finetuning["from_"], str(other)], "seeds": 1, "out": str(tmp_path / "out")}
    whole = reproduce("table-1", **options).comparisons[0]
    assert whole["confidence_interval"]
    done = next(tmp_path.glob("out/finetuned/*/part.json"))
    (done.parent / "predictions.jsonl").unlink()
    again = reproduce("table-1", **options).comparisons[0]
    assert (again["difference"], again["confidence_interval"]) == (whole["difference"], None)
    assert f"{done.parent} has lost its predictions: its differences have no interval over the examples" in said.text
    facts = json.loads(done.read_text())
    done.write_text(json.dumps({**facts, "metrics": {**facts["metrics"], "accuracy": "x"}}))
    with pytest.raises(UserError, match="is damaged: `accuracy` is 'x'") as refused:
        reproduce("table-1", **options)
    assert f"rm -r {done.parent}" in refused.value.hint


def test_families_are_pre_trained_for_the_same_operations(data: Path, workspace: Path) -> None:
    rows = {"rows": ["RoBERTa", "BERT, one text", "BERT"]}
    result = reproduce("family", flops=4e9, **rows, **{**tiny(data), "vocab_size": 300})
    assert [*dict.fromkeys(cell["row"] for cell in result.cells)] == ["BERT", "BERT, one text", "RoBERTa"]
    assert all(cell["median"] > 0 for cell in result.cells if cell["column"] == "minutes")
    assert {(each["row"], each["beside"]) for each in result.comparisons} == {(row, "BERT") for row in rows["rows"][:2]}
    assert "differences" in result.sentence
    runs = [yaml.safe_load(path.read_text()) for path in Path(result.folder).glob("pretrained/*/config.yaml")]
    assert {run["flops"] for run in runs} == {4e9}
    assert len({run["steps"] for run in runs}) > 1
    with pytest.raises(UserError, match="ALBER"):
        reproduce("family", rows=["ALBER"], **tiny(data))


def test_a_row_may_have_its_own_vocabulary_and_a_teacher_of_another_row(data: Path, workspace: Path) -> None:
    result = reproduce("family", flops=4e9, rows=["BERT, capitals", "DistilBERT"], **{**tiny(data), "vocab_size": 300})
    assert result.systems == ["BERT, capitals", "DistilBERT"]
    titles = {cost["title"]: cost["count"] for cost in result.costs}
    assert {"learn a vocabulary, cased", "learn a vocabulary", "pre-train BERT", "distill DistilBERT"} < titles.keys()
    (run,) = Path(result.folder).glob("distilled/tiny-*/")
    assert json.loads((run / "model" / "config.json").read_text())["model_type"] == "distilbert"
    assert yaml.safe_load((run / "config.yaml").read_text())["teacher"].startswith(f"{result.folder}/pretrained/")


def test_a_pre_training_for_operations_starts_over_where_nothing_of_it_was_saved(home: Path, workspace: Path) -> None:
    options = {"data": str(home / "pretraining-data"), "size": "tiny", "flops": 2e9, "batch_size": 4}
    whole = pretrain(**options, out="whole")
    shutil.copytree("whole", "begun", ignore=shutil.ignore_patterns("model", "checkpoints", "result.json"))
    again = pretrain(**options, out="begun", resume=True)
    assert (again.steps, again.losses) == (whole.steps, whole.losses)


def test_parts_of_another_text_are_other_parts(tmp_path: Path) -> None:
    def paths(text: str, **options: Any) -> set[str]:
        (tmp_path / "text.txt").write_text(text)
        parts._content_of.cache_clear()
        config = ReproduceConfig(experiment="table-5", text=[str(tmp_path / "text.txt")], **options)
        experiment = EXPERIMENTS["table-5"]
        return {*parts.parts_of(config, experiment, parts.rows_of(experiment, []), None).all}

    assert paths("the cat\n") == paths("the cat\n")
    assert not paths("the cat\n") & paths("the dog\n")
    plain, precise = paths("the cat\n"), paths("the cat\n", precision="float32")
    assert not {part for part in plain & precise if part.startswith("pretrained")}
