"""The zip of the GLUE leaderboard: complete, in its spelling, and from whole test sets only."""

import os
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from bertcli.errors import UserError
from bertcli.lifecycle import submit as submission
from bertcli.lifecycle.finetune import finetune
from bertcli.lifecycle.submit import TEST_SETS, check_zip, submit

HEADERS = {
    "CoLA": "index\tsentence",
    "STS-B": "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2",
    "MRPC": "\ufeffindex\t#1 ID\t#2 ID\t#1 String\t#2 String",
    "QQP": "id\tquestion1\tquestion2",
    "MNLI": "index\tpromptID\tsentence1\tsentence2",
    "diagnostic": "index\tsentence1\tsentence2",
}
LABELS = {"CoLA": "01", "MRPC": "01", "QQP": "01", "MNLI": ("entailment", "neutral", "contradiction")}
TASKS = {"CoLA": "cola", "STS-B": "stsb", "MRPC": "mrpc", "QQP": "qqp", "MNLI": "mnli"}
COUNTS = {test.file: 5 + place for place, test in enumerate(TEST_SETS)}


def write_test(folder: Path, name: str, file: str, count: int) -> None:
    width = HEADERS[name].count("\t")
    rows = [HEADERS[name], *("\t".join([str(row), *["the cat sat"] * width]) for row in range(count))]
    (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / name / file).write_text("\n".join(rows) + "\n", encoding="utf-8")


def write_train(folder: Path, name: str) -> None:
    """Training and dev sets as they are distributed."""
    draw = LABELS.get(name, ("4.5", "0.5"))
    rows = []
    for number in range(12):
        label = draw[number % len(draw)]
        text, pair = "a cat sat", f"the dog ran {number}"
        if name == "CoLA":
            rows.append(f"gj04\t{label}\t\t{text}")
        elif name == "MRPC":
            rows.append("\t".join([label, "1", "2", text, pair]))
        elif name == "MNLI":
            rows.append("\t".join([str(number), text, pair, label]))
        else:
            before = 7 if name == "STS-B" else 3
            rows.append("\t".join([*[str(number)] * before, text, pair, label]))
    header = "index\tsentence1\tsentence2\tgold_label" if name == "MNLI" else "any\theader"
    lines = rows if name == "CoLA" else [header, *rows]
    for split in ("train", "dev_matched" if name == "MNLI" else "dev"):
        (folder / name / f"{split}.tsv").write_text("\n".join(lines), encoding="utf-8")


@pytest.fixture(scope="module")
def glue(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Official files and a run of some tasks, beside each other."""
    folder = tmp_path_factory.mktemp("glue-home")
    for test in TEST_SETS:
        name = {"MNLI-m": "MNLI", "MNLI-mm": "MNLI", "AX": "diagnostic"}.get(test.file[:-4], test.file[:-4])
        if name in HEADERS:
            file = {"AX": "diagnostic", "MNLI-m": "test_matched", "MNLI-mm": "test_mismatched"}.get(
                test.file[:-4], "test"
            )
            write_test(folder / "glue", name, f"{file}.tsv", COUNTS[test.file])
    for name, task in TASKS.items():
        write_train(folder / "glue", name)
        finetune(
            task,
            data_dir=str(folder),
            epochs=1,
            batch_size=4,
            from_=str(home / "runs" / "pretrain-tiny"),
            out=str(folder / task),
        )
    return folder


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Test sets of a few rows."""
    sets = tuple(replace(test, examples=COUNTS[test.file]) for test in TEST_SETS)
    monkeypatch.setattr(submission, "TEST_SETS", sets)


def read_zip(path: Path) -> dict[str, list[list[str]]]:
    with zipfile.ZipFile(path) as archive:
        return {
            name: [line.split("\t") for line in archive.read(name).decode().splitlines()] for name in archive.namelist()
        }


@pytest.mark.usefixtures("small")
def test_the_zip_has_every_file_in_the_leaderboards_spelling(
    glue: Path, workspace: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="bertcli")
    result = submit(runs=[str(glue / task) for task in TASKS.values()])
    files = read_zip(workspace / "submission.zip")
    assert set(files) == {
        "CoLA.tsv",
        "SST-2.tsv",
        "MRPC.tsv",
        "STS-B.tsv",
        "MNLI-m.tsv",
        "MNLI-mm.tsv",
        "QNLI.tsv",
        "QQP.tsv",
        "RTE.tsv",
        "WNLI.tsv",
        "AX.tsv",
    }
    said = {name: {row[1] for row in rows[1:]} for name, rows in files.items()}
    for name, rows in files.items():
        assert rows[0] == ["index", "prediction"]
        assert [row[0] for row in rows[1:]] == [str(row) for row in range(COUNTS[name])]
    for name in ("CoLA.tsv", "MRPC.tsv", "QQP.tsv"):
        assert said[name] <= {"0", "1"}
    for name in ("MNLI-m.tsv", "MNLI-mm.tsv", "AX.tsv"):
        assert said[name] <= {"entailment", "neutral", "contradiction"}
    assert all(0 <= float(value) <= 5 and len(value.split(".")[1]) == 3 for value in said["STS-B.tsv"])
    assert (said["RTE.tsv"], said["QNLI.tsv"], said["WNLI.tsv"]) == ({"entailment"}, {"entailment"}, {"0"})
    by = {row["file"]: (row["run"], row["filled_with"]) for row in result.files}
    assert by["AX.tsv"] == by["MNLI-mm.tsv"] == (str(glue / "mnli"), None)
    assert by["RTE.tsv"] == (None, "entailment")
    assert "4 of 11 files hold a single value" in caplog.text


@pytest.mark.usefixtures("small")
def test_similarities_stay_between_0_and_5_and_what_is_clipped_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="bertcli")
    values = [{"value": value} for value in (-0.2, 0.12345, 5.4, 5.0)]
    assert submission._in_range(values, "STS-B.tsv") == ["0.000", "0.123", "5.000", "5.000"]
    assert "2 of 4 values were below 0 or above 5, clipped" in caplog.text


def test_tasks_without_a_run_are_filled_to_their_official_counts(glue: Path, workspace: Path) -> None:
    write_test(workspace / "glue", "CoLA", "test.tsv", 1063)
    submit(runs=[str(glue / "cola")], data_dir=str(workspace), out="mine.zip")
    counts = {name: len(rows) - 1 for name, rows in read_zip(workspace / "mine.zip").items()}
    assert counts == {test.file: test.examples for test in TEST_SETS}
    assert sum(counts.values()) == 426_309  # as the sample submission


def test_real_test_files_are_the_official_ones(shared: Path) -> None:
    from bertcli.lifecycle.sources import find_source

    for test in TEST_SETS:
        if test.task in ("glue/mnli", "glue/qqp", "glue/ax"):
            continue
        assert len(find_source(test.task, str(shared / "data")).read("test")) == test.examples
        name = "STS-B" if test.file == "STS-B.tsv" else test.file[:-4]
        submission._check_index(shared / "data" / "glue" / name / "test.tsv")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: lines[:-1], r"has 4 examples; the official test set of glue/cola has 5"),
        (lambda lines: lines[1:], r"has no column `index`: it begins with `0`"),
        (lambda lines: [*lines[:2], lines[3], lines[2], *lines[4:]], r"has the index `2` where 1 belongs"),
        (lambda lines: [*lines[:3], "9\tgone astray", *lines[4:]], r"has the index `9` where 2 belongs"),
    ],
    ids=["shortened", "headerless", "reordered", "renumbered"],
)
@pytest.mark.usefixtures("small")
def test_a_test_set_that_is_not_the_official_one_is_refused(
    glue: Path, workspace: Path, change: object, message: str
) -> None:
    write_test(workspace / "glue", "CoLA", "test.tsv", 5)
    path = workspace / "glue" / "CoLA" / "test.tsv"
    path.write_text("\n".join(change(path.read_text().splitlines())))
    with pytest.raises(UserError, match=message):
        submit(runs=[str(glue / "cola")], data_dir=str(workspace))
    assert not Path("submission.zip").exists()


@pytest.mark.usefixtures("small")
def test_runs_that_do_not_belong_are_refused(glue: Path, home: Path, workspace: Path) -> None:
    cola = str(glue / "cola")
    with pytest.raises(UserError, match="no finished run of a task of GLUE in this folder"):
        submit()
    with pytest.raises(UserError, match="are both of glue/cola"):
        submit(runs=[cola, cola])
    with pytest.raises(UserError, match="of pretraining, which is no task of GLUE"):
        submit(runs=[str(home / "runs" / "pretrain-tiny")])
    with pytest.raises(UserError, match="not a fine-tuned run"):
        submit(runs=["nowhere"])
    with pytest.raises(UserError, match="Unknown value for BENCHMARK: `superglue`"):
        submit("superglue", runs=[cola])
    (workspace / "glue").mkdir()
    with pytest.raises(UserError, match=r"no `glue/CoLA/test.tsv`"):
        submit(runs=[cola], data_dir=str(workspace))
    assert list(workspace.iterdir()) == [workspace / "glue"]


@pytest.mark.usefixtures("small")
def test_without_runs_the_newest_of_each_task_are_taken(glue: Path, workspace: Path) -> None:
    for age, (name, task) in enumerate([("new", "cola"), ("old", "cola"), ("other", "mrpc")]):
        shutil.copytree(glue / task, workspace / "runs" / name)
        os.utime(workspace / "runs" / name / "config.yaml", (1e9 - age, 1e9 - age))
    by = {row["file"]: row["run"] for row in submit().files if row["run"]}
    assert by == {"CoLA.tsv": "runs/new", "MRPC.tsv": "runs/other"}


@pytest.mark.usefixtures("small")
def test_a_dry_run_checks_the_test_sets_and_writes_nothing(glue: Path, workspace: Path) -> None:
    assert submit(runs=[str(glue / "mrpc")], dry_run=True).files[2]["rows"] == COUNTS["MRPC.tsv"]
    assert not any(workspace.iterdir())


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("RTE.tsv", "index\tprediction\n0\t1\n", "RTE.tsv line 2 is `0\t1`"),
        ("STS-B.tsv", "index\tprediction\n0\t5.2\n", "STS-B.tsv line 2"),
        ("STS-B.tsv", "index\tprediction\n0\tnan\n", "STS-B.tsv line 2"),
        ("CoLA.tsv", "id\tlabel\n0\t1\n", "has the header `id\tlabel`"),
        ("AX.tsv", "index\tprediction\n", "0 rows, not 1"),
        ("WNLI.tsv", "index\tprediction\n7\t1\n", "WNLI.tsv line 2"),
        ("CoLA2.tsv", "", "`CoLA2.tsv` should not be in the zip"),
    ],
)
def test_a_zip_that_the_leaderboard_would_not_take_is_an_error(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, file: str, text: str, message: str
) -> None:
    sets = tuple(replace(test, examples=1) for test in TEST_SETS)
    monkeypatch.setattr(submission, "TEST_SETS", sets)
    files = {test.file: f"index\tprediction\n0\t{test.filler}\n" for test in sets}
    for name, content in (("good.zip", files), ("bad.zip", {**files, file: text})):
        with zipfile.ZipFile(name, "w") as archive:
            for member, lines in content.items():
                archive.writestr(member, lines)
    check_zip(Path("good.zip"))
    with pytest.raises(UserError, match=message):
        check_zip(Path("bad.zip"))
