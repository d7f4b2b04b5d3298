"""What the version of commit 94c0b4c wrote is still read, scored, used and resumed, with the same results."""

import json
import logging
import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from statistics import fmean
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
import yaml
from conftest import GOLDENS

from bertcli.cli.main import main

BEFORE = GOLDENS / "before"
EXPECTED = json.loads((BEFORE / "expected.json").read_text(encoding="utf-8"))
MODIFIED = (
    1_700_000_000  # of the corpus, in seconds, which is part of what data are known by and which git does not keep
)


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("before") / "home"
    shutil.copytree(BEFORE, folder)
    os.utime(folder / "corpus.txt", (MODIFIED, MODIFIED))
    return folder


@pytest.fixture(autouse=True)
def folder(copied: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The copy as the working folder, and one thread, as it was made."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    monkeypatch.chdir(copied)
    yield copied
    torch.set_num_threads(threads)


def bert(*arguments: str) -> str:
    """Run a command in this process, which must end well; return what it prints."""
    logger, out, given = logging.getLogger("bertcli"), StringIO(), sys.argv
    handlers, level, propagates = logger.handlers, logger.level, logger.propagate
    sys.argv = ["bert", *arguments]
    try:
        with redirect_stdout(out), pytest.raises(SystemExit) as ended:
            main()
    finally:
        sys.argv = given
        logger.handlers, logger.propagate = handlers, propagates  # as it was before the command
        logger.setLevel(level)
    assert ended.value.code == 0
    return out.getvalue()


def close(values: Any, tolerance: float = 1.1e-4) -> Any:
    """The same values, numbers to a tolerance (scores may be rounded to 1e-4), however deep they stand."""
    if isinstance(values, dict):
        return {key: close(value, tolerance) for key, value in values.items()}
    if isinstance(values, list):
        return [close(value, tolerance) for value in values]
    return pytest.approx(values, abs=tolerance) if isinstance(values, float) else values


def machine() -> dict[str, str]:
    """What decides the bits of a result, as make.py has it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    of_cpu = [
        line.partition(":")[2].strip() for line in lines if line.startswith(("vendor_id", "cpu family", "model\t"))
    ]
    return {
        "cpu": " ".join(of_cpu[:3]),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "torch": torch.__version__,
    }


def logged(run: Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl without what depends on the time, or was not logged before."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    timed = ("tokens_per_second", "share_of_peak", "gradient_norm")
    kept = [line for line in lines if "fills" not in line]
    return [{key: value for key, value in line.items() if key not in timed} for line in kept]


# --- Finished runs


@pytest.mark.usefixtures("float32")
@pytest.mark.parametrize("name", EXPECTED["evaluated"])
def test_a_run_scores_what_it_scored(name: str) -> None:
    old = EXPECTED["evaluated"][name]
    result = json.loads(bert("evaluate", old["data"], "--model", f"runs/{name}", "--json"))
    assert result["examples"] == old["examples"]
    # Two of the six texts with values are the same: where a CPU's products give them other last bits, they are no tie.
    assert result["metrics"] == close(old["metrics"], 2.0 if name == "regress" else 1.1e-4)


@pytest.mark.usefixtures("float32")
@pytest.mark.parametrize("name", EXPECTED["predicted"])
def test_a_run_predicts_what_it_predicted(name: str) -> None:
    old = EXPECTED["predicted"][name]
    assert json.loads(bert("predict", *old["arguments"], "--model", f"runs/{name}", "--json")) == close(old["record"])


def test_the_latest_run_is_found_among_them() -> None:
    os.utime("runs/rte/config.yaml")
    assert json.loads(bert("evaluate", "glue/rte", "--json"))["model"] == "runs/rte/model"


@pytest.mark.parametrize(
    "old", EXPECTED["scored"], ids=lambda old: old["arguments"][old["arguments"].index("--predictions") + 1]
)
def test_a_file_of_predictions_scores_what_it_scored(old: dict[str, Any]) -> None:
    assert json.loads(bert(*old["arguments"], "--json"))["metrics"] == close(old["metrics"])


@pytest.mark.usefixtures("float32")
@pytest.mark.parametrize("path", sorted((BEFORE / "predictions").iterdir()), ids=lambda path: path.name)
def test_a_file_of_predictions_holds_what_it_held(path: Path, tmp_path: Path) -> None:
    what = ["glue/rte"] if path.stem == "rte" else ["--file", EXPECTED["evaluated"][path.stem]["data"]]
    alone = [] if path.stem == "rte" else ["--only-predictions"]
    bert("predict", *what, "--model", f"runs/{path.stem}", "--output", str(tmp_path / path.name), *alone)
    (names, *new), (old_names, *old) = cells(tmp_path / path.name), cells(path)
    assert new == [[close(cell) for cell in line] for line in old]
    answers = {
        "label": "prediction",
        "value": "prediction",
        "choice": "prediction",
    }  # since their input's columns are kept
    if path.suffix != ".jsonl":
        assert names == [answers.get(name, name).replace("score ", "score_") for name in old_names]


def cells(path: Path) -> list[list[Any]]:
    """The lines of a file of predictions, numbers as numbers."""
    text = path.read_text(encoding="utf-8").splitlines()
    if path.suffix == ".jsonl":
        return [[json.loads(line)] for line in text]
    rows = [line.split("\t" if path.suffix == ".tsv" else ",") for line in text]
    return [[float(cell) if cell.replace(".", "").isdigit() else cell for cell in row] for row in rows]


# --- Interrupted runs


@pytest.mark.parametrize("name", ["static", "single", "seeds"])
def test_an_interrupted_run_ends_as_the_undisturbed_one(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    old, run = EXPECTED["whole"][name], Path("runs", name)
    result = json.loads(bert(old["arguments"][0], "--resume", "--out", str(run), "--json"))
    assert "begun by an older version: dropout draws other masks from here on" in capfd.readouterr().err
    # Steps after the interruption draw other dropout masks than they did: what they end with is near, not the same.
    assert fmean(result["losses"]) == pytest.approx(fmean(old["losses"]), rel=0.1)
    assert [own["setting"] for own in result["runs"]] == [own[0] for own in old["runs"]]
    steps = [[(line["step"], line.get("learning_rate")) for line in log] for log in (logged(run), old["log"])]
    assert steps[0] == close(steps[1])


# --- Pre-training data


@pytest.mark.parametrize("name", ["static", "dynamic"])
def test_finished_data_are_known_as_complete_and_left_as_they_are(name: str) -> None:
    files = {path: path.stat().st_mtime_ns for path in Path(name).rglob("*")}
    result = json.loads(bert("make-pretraining-data", *EXPECTED["data"][name], "--out", name, "--json"))
    assert {path: path.stat().st_mtime_ns for path in Path(name).rglob("*")} == files
    manifest = json.loads(Path(name, "manifest.json").read_text(encoding="utf-8"))
    for count in ("instances", "tokens", "documents", "random_next", "masked_tokens"):
        assert result[count] == manifest[count]


@pytest.mark.parametrize("begun", [True, False])
def test_data_are_made_as_they_were_from_the_start_and_from_what_is_finished(begun: bool) -> None:
    name = "unfinished" if begun else "new"
    finished = Path(".unfinished.part", "shard-00000.parquet").stat().st_mtime_ns if begun else None
    bert("make-pretraining-data", *EXPECTED["data"]["static"], "--out", name)
    assert not Path(f".{name}.part").exists()
    if begun:
        assert Path(name, "shard-00000.parquet").stat().st_mtime_ns == finished
    manifests = [json.loads(Path(data, "manifest.json").read_text(encoding="utf-8")) for data in (name, "static")]
    for counts in (manifests[0], *manifests[0]["shards"]):
        for name_of_count in ("sha256", "text_tokens", "unused_tokens"):  # which were not kept before
            counts.pop(name_of_count, None)
    assert (manifests[0].pop("family"), manifests[0].pop("objective")) == ("bert", "mlm+nsp")
    assert manifests[0] == manifests[1]
    for shard in manifests[1]["shards"]:
        assert pq.read_table(f"{name}/{shard['file']}").equals(pq.read_table(f"static/{shard['file']}"))


def test_dynamic_data_give_the_masks_and_losses_that_they_gave() -> None:
    old = EXPECTED["whole"]["dynamic"]
    bert(*old["arguments"], "--out", "runs/dynamic")
    (first, *lines), (old_first, *old_lines) = logged(Path("runs/dynamic")), old["log"]
    assert first == close(old_first)  # without dropout, which draws other masks than it did
    assert [line["loss"] for line in lines if "loss" in line] == pytest.approx(
        [line["loss"] for line in old_lines if "loss" in line], rel=0.1
    )


# --- Recipes


@pytest.mark.parametrize("command", EXPECTED["printed"])
def test_a_recipe_or_command_gives_the_options_that_it_gave(command: str, tmp_path: Path) -> None:
    before = yaml.safe_load(EXPECTED["printed"][command])
    printed = yaml.safe_load(bert(*shlex.split(command), "--print-config"))
    assert printed | before == printed
    (tmp_path / "printed.yaml").write_text(EXPECTED["printed"][command], encoding="utf-8")
    again = bert(shlex.split(command)[0], "--recipe", str(tmp_path / "printed.yaml"), "--print-config")
    assert yaml.safe_load(again) == printed
