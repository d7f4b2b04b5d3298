"""The zip of the GLUE leaderboard: a file of predictions for each test set, checked."""

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bertcli import number_of, say
from bertcli.config.use import SubmitConfig
from bertcli.data.atomic import replacing
from bertcli.data.labelled.official_files import split_file
from bertcli.data.results import Result, Rows
from bertcli.data.text.files import read_text
from bertcli.errors import UserError, check_file
from bertcli.kinds.kind import Split
from bertcli.kinds.types import Prediction
from bertcli.lifecycle.sources import find_source
from bertcli.lifecycle.workspace import runs_of_tasks
from bertcli.tasks import TASKS
from bertcli.tasks.glue import GLUE
from bertcli.tasks.task import Task
from bertcli.training.run_folder import RunFolder

HEADER = "index\tprediction"


@dataclass(frozen=True)
class TestSet:
    """A test set of GLUE: its file in the zip, its examples, and what stands there where no run has predicted it."""

    file: str
    task: str
    split: str
    examples: int
    filler: str  # the most frequent label of the training data (QNLI has as many of each), for STS-B their mean

    @property
    def learnt_as(self) -> str:
        """The task whose model predicts it: that of MNLI the diagnostic one."""
        return TASKS[self.task].learnt_as or self.task


# The counts of the official test files; the leaderboard takes a zip with all of these and nothing else.
TEST_SETS = (
    TestSet("CoLA.tsv", "glue/cola", "test", 1063, "1"),
    TestSet("SST-2.tsv", "glue/sst2", "test", 1821, "1"),
    TestSet("MRPC.tsv", "glue/mrpc", "test", 1725, "1"),
    TestSet("STS-B.tsv", "glue/stsb", "test", 1379, "2.701"),
    TestSet("MNLI-m.tsv", "glue/mnli", "test", 9796, "contradiction"),
    TestSet("MNLI-mm.tsv", "glue/mnli", "test_mismatched", 9847, "contradiction"),
    TestSet("QNLI.tsv", "glue/qnli", "test", 5463, "entailment"),
    TestSet("QQP.tsv", "glue/qqp", "test", 390_965, "0"),
    TestSet("RTE.tsv", "glue/rte", "test", 3000, "entailment"),
    TestSet("WNLI.tsv", "glue/wnli", "test", 146, "0"),
    TestSet("AX.tsv", "glue/ax", "test", 1104, "contradiction"),
)


@dataclass(frozen=True)
class Submission(Result):
    """The zip, and for each file in it the rows and the run that predicted them, or what it was filled with."""

    output: str
    files: list[dict[str, Any]]

    @property
    def rows(self) -> Rows:
        """A row a file of the zip."""
        return self.files


def submit(config: SubmitConfig | str | None = None, **options: Any) -> Submission:
    """Write the zip for the GLUE leaderboard from a run of each task; a test set without a run is filled with one label.

    Raises UserError if a run is not of GLUE, two are of one task, or a test set is not the official one, whole.
    """
    config = SubmitConfig.build(config, options)
    out = Path(config.out)
    check_file(out, "--out")
    runs = _runs(config.runs or runs_of_tasks(task.name for task in GLUE))
    read, files = {}, []
    for test in TEST_SETS:
        run = runs.get(test.learnt_as)
        if run:
            read[test.file] = _read(test, run, config.data_dir)
        else:
            say(f"{test.file}: no run of {test.learnt_as}; filled with `{test.filler}`")
        by = {"run": str(run.path), "filled_with": None} if run else {"run": None, "filled_with": test.filler}
        files.append({"file": test.file, "rows": test.examples, **by})
    if filled := len(files) - len(read):
        say(f"{filled} of {len(TEST_SETS)} files hold a single value; their scores mean nothing")
    if not config.dry_run:
        _write(out, _predictions(runs, read))
    return Submission(str(out), files)


def _runs(names: list[str]) -> dict[str, RunFolder]:
    runs: dict[str, RunFolder] = {}
    for name in names:
        run = RunFolder(Path(name))
        saved = run.config if (run.path / "config.yaml").exists() and (run.model / "config.json").exists() else {}
        task = str(saved.get("task", ""))
        if task not in {known.name for known in GLUE}:
            what = f"of {task}, which is no task of GLUE" if task else "not a fine-tuned run with a model"
            raise UserError(f"`{name}` is {what}.", "Give runs of GLUE: bert submit glue runs/glue-cola runs/glue-mnli")
        if task in runs:
            raise UserError(f"`{runs[task].path}` and `{name}` are both of {task}.", "Give one run of each task.")
        runs[task] = run
    return runs


def _read(test: TestSet, run: RunFolder, data_dir: str | None) -> Split:
    """Read a test set, and check that it is whole and in the order of its index."""
    source = find_source(test.task, data_dir or run.config.get("data_dir"))
    read = source.read(test.split)
    origin = read.examples.origin
    if source.data_dir:
        _check_index(split_file(source.task, test.split, Path(source.data_dir)))
    if len(read) != test.examples:
        what = f"`{origin}` has {len(read):,} examples; the official test set of {test.task} has {test.examples:,}."
        raise UserError(what, "Give the whole official file: the leaderboard does not accept a part of it.")
    return read


def _check_index(path: Path) -> None:
    """Check that the first column counts the rows from 0, as in every official test file."""
    name, *indices = [line.partition("\t")[0] for line in read_text(path).split("\n") if line.strip()]
    if name not in ("index", "id"):
        raise UserError(f"`{path}` has no column `index`: it begins with `{name}`.", "Give the official test file.")
    odd = next((row for row, index in enumerate(indices) if index != str(row)), None)
    if odd is not None:
        what = f"`{path}` has the {name} `{indices[odd]}` where {odd} belongs."
        raise UserError(what, "Give the official test file, in its order.")


def _predictions(runs: dict[str, RunFolder], read: dict[str, Split]) -> dict[str, list[str]]:
    """The predictions of each file, in the leaderboard's spelling."""
    from bertcli.lifecycle.scoring.task_model import load_task_model

    texts = {test.file: [test.filler] * test.examples for test in TEST_SETS}
    for name, run in runs.items():
        model = load_task_model(TASKS[name], str(run.model), "auto")
        for test in [test for test in TEST_SETS if test.learnt_as == name]:
            task, predictions = TASKS[test.task], model.predict(read[test.file])
            spelled = dict(zip(task.labels, task.file_labels, strict=False))
            if task.labels:
                texts[test.file] = [spelled.get(each["label"], str(each["label"])) for each in predictions]
            else:
                texts[test.file] = _in_range(predictions, test.file)
    return texts


def _in_range(predictions: list[Prediction], file: str) -> list[str]:
    """Similarities, clipped to 0 to 5."""
    values = np.array([each["value"] for each in predictions])
    beyond = int(((values < 0) | (values > 5)).sum())
    if beyond:
        say(f"{file}: {beyond:,} of {len(values):,} values were below 0 or above 5, clipped")
    return [f"{value:.3f}" for value in np.clip(values, 0, 5)]


def _write(out: Path, texts: dict[str, list[str]]) -> None:
    with replacing(out) as part:
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
            for file, predictions in texts.items():
                rows = [f"{index}\t{prediction}" for index, prediction in enumerate(predictions)]
                archive.writestr(file, "\n".join([HEADER, *rows]) + "\n")
        check_zip(part)
    say(f"wrote {out}: {number_of(len(texts), 'file')}, {number_of(sum(map(len, texts.values())), 'prediction')}")


def check_zip(path: Path) -> None:
    """Check a submission as the leaderboard reads it. Raises UserError naming the file and line that is wrong."""
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name).decode("utf-8") for name in archive.namelist()}
    hint = "Write it again: bert submit glue RUN..."
    strange = sorted(files.keys() ^ {test.file for test in TEST_SETS})
    if strange:
        what = "should not be" if strange[0] in files else "is not"
        raise UserError(f"`{strange[0]}` {what} in the zip.", hint)
    for test in TEST_SETS:
        header, *rows = files[test.file].removesuffix("\n").split("\n")
        if header != HEADER or len(rows) != test.examples:
            what = f"{test.file} has the header `{header}` and {len(rows):,} rows, not {test.examples:,}."
            raise UserError(what, hint)
        for index, row in enumerate(rows):
            place, _, prediction = row.partition("\t")
            if place != str(index) or not _is_valid(TASKS[test.task], prediction):
                what = f"{test.file} line {index + 2} is `{row}`, which the leaderboard does not accept."
                raise UserError(what, f"Give a run that was made by: bert finetune {test.learnt_as}")


def _is_valid(task: Task, prediction: str) -> bool:
    if task.labels:
        return prediction in (task.file_labels or task.labels)
    try:
        return 0 <= float(prediction) <= 5
    except ValueError:
        return False
