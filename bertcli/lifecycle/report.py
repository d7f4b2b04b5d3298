"""The report of a run, or of several beside each other: read from their folders, written as a page and as Markdown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from bertcli import quietly, say
from bertcli.config.use import ReportConfig
from bertcli.data.atomic import write_text
from bertcli.data.json_files import read_json
from bertcli.data.results import Result, Rows
from bertcli.errors import UserError, check_file, quoted
from bertcli.kinds import KINDS
from bertcli.kinds.kind import Split
from bertcli.lifecycle.reporting.provenance import command_of, provenance_of
from bertcli.lifecycle.reproducing.page import markdown_of, page_of
from bertcli.lifecycle.reproducing.result import reproductions_in
from bertcli.lifecycle.scoring.intervals import Scored, beside, score_split, worst_mistakes
from bertcli.lifecycle.sources import has_dev, run_data
from bertcli.lifecycle.workspace import latest_finished_run, nearest_run
from bertcli.objectives import OBJECTIVES
from bertcli.reports.charts import standalone
from bertcli.reports.comparison import MOST_SHOWN, comparison_markdown, comparison_page, disagreements, options_table
from bertcli.reports.curves import run_curves
from bertcli.reports.evaluation import Evaluation
from bertcli.reports.model_card import model_card
from bertcli.reports.record import Answers, RunRecord
from bertcli.reports.rendering import escaped, markdown_tables
from bertcli.reports.run_page import run_page
from bertcli.reports.sections import Page, chart_style, render_page
from bertcli.tasks.task import Task
from bertcli.training.result import TrainingResult
from bertcli.training.run_folder import RunFolder

HINT = "Restore it, or remove it."
DATA_GONE = "its data cannot be read"


@dataclass(frozen=True)
class Report(Result):
    """The file of a page, its text as Markdown, and the runs on it."""

    report: str
    markdown: str
    runs: list[dict[str, Any]]
    comparison: dict[str, Any] | None = None  # paired, where all were scored on the same examples

    @property
    def rows(self) -> Rows:
        """A row for each run and metric: the score, and its 95 % interval where the predictions are known."""
        found = []
        for run in self.runs:
            if "cells" in run:
                found += [{"run": run["folder"], "experiment": run["experiment"], **cell} for cell in run["cells"]]
                continue
            for metric, score in run["metrics"].items():
                low, high = run["confidence_intervals"].get(metric, (None, None))
                about = {"run": run["run"], "task": run["task"]}
                found.append({**about, "metric": metric, "score": score, "low": low, "high": high})
        return found

    def to_json(self) -> dict[str, Any]:
        """The result as `--json` prints it."""
        return {key: value for key, value in asdict(self).items() if key != "markdown"}


class _Kept(NamedTuple):
    """The scored predictions that a run has kept; where there are none, why."""

    scored: Scored | None = None
    answers: Answers | None = None
    why_none: str = ""


class _Read(NamedTuple):
    """A run as its reports show it, and the scores that another is compared by."""

    record: RunRecord
    scored: Scored | None


def report(runs: ReportConfig | list[str] | str | None = None, **options: Any) -> Report:
    """Write the report of a run or a reproduction into its folder, or one page of several runs or several reproductions.

    What a run lacks, as of an older version or with its data gone, is named on the page. Raises UserError if it is no run.
    """
    config = ReportConfig.build(runs, options)
    page, found, folder = _page(config.runs)
    out = Path(config.out) if config.out else (folder if len(config.runs) < 2 else Path()) / "report.html"
    check_file(out, "--out")
    if config.dry_run:
        say(f"would write {out}")
        return found
    missing = [f"{run['run']}: {why}" for run in found.runs for why in run.get("missing", ())]
    for line in missing:
        say(line)
    is_poorer = len(found.runs) < 2 and any(DATA_GONE in line for line in missing)
    if is_poorer and out.exists() and not config.out:
        say(f"{out} is kept as it was written with its data; --out writes another")
    else:
        write_text(out, render_page(page))
        say(f"report: {out}")
    return replace(found, report=str(out))


def _page(names: Sequence[str]) -> tuple[Page, Report, Path]:
    """The page of some folders, the result without its file, and the first folder."""
    kept = [reproductions_in(Path(name)) for name in names]
    if reproduced := [name for name, own in zip(names, kept, strict=True) if own]:
        if len(reproduced) < len(names):
            what = f"`{reproduced[0]}` is a reproduction, others are not."
            raise UserError(what, "Name runs alone, or reproductions alone.")
        shown = list(chain.from_iterable(kept))
        text = "\n\n".join(map(markdown_of, shown))
        return page_of(shown), Report("", text, [asdict(each) for each in shown]), Path(names[0])
    folders = [_run_at(Path(name)) for name in names] or [latest_finished_run(with_baselines=True)]
    page, found = (_alone if len(folders) == 1 else _beside_each_other)([_read(folder) for folder in folders])
    return page, found, folders[0].path


def _alone(read: Sequence[_Read]) -> tuple[Page, Report]:
    record = read[0].record
    tables = markdown_tables([record.scores]) if record.scores.rows else ""
    text = "\n\n".join(filter(None, (escaped(record.sentence), tables)))
    return run_page(record), Report("", text, [_summary(record)])


def _beside_each_other(read: Sequence[_Read]) -> tuple[Page, Report]:
    records, compared = _named_apart([each.record for each in read]), _compared(read)
    comparison = _comparison(records, compared) if compared else None
    text = comparison_markdown(records, compared)
    return comparison_page(records, compared), Report("", text, [*map(_summary, records)], comparison)


def write_reports(run: RunFolder, result: TrainingResult, split: Split | None = None, task: Task | None = None) -> None:
    """Write the page, the model card and the curve of a run that ends; result.json is written last and marks it as finished."""
    record = _record(run, result, _scored(run, result, task, split) if split and task else _Kept())
    curves = run_curves(record.lines)
    if curves:
        run.write("loss.svg", standalone(curves[0], chart_style()))
    run.write("README.md", model_card(record, provenance_of(record, split)))
    run.write("report.html", render_page(run_page(record)))
    run.write("result.json", json.dumps(asdict(result), indent=2) + "\n")


def _run_at(path: Path) -> RunFolder:
    """The run of a folder, or of the model in it."""
    path = path.parent if path.name == "model" else path
    if not (path / "config.yaml").exists():
        what = f"`{path}` is not the folder of a run."
        raise UserError(what, nearest_run(str(path), "Give folders under runs/: bert report runs/NAME"))
    return RunFolder(path)


def _read(folder: RunFolder) -> _Read:
    config = folder.config
    if not folder.is_finished:
        result = TrainingResult(task=config.get("task", ""), seed=int(config.get("seed") or 0), run=str(folder.path))
        why = f"It has not finished: there are no scores yet. To finish it: {folder.command_to_resume}"
        return _Read(_record(folder, result, _Kept(why_none=why)), None)
    result = TrainingResult.read(folder.path)
    found = _scored_again(folder, result) if config.get("kind") in KINDS else _Kept()
    return _Read(_record(folder, result, found), found.scored)


def _record(folder: RunFolder, result: TrainingResult, found: _Kept) -> RunRecord:
    config, path = folder.config, folder.path / "environment.json"
    environment = read_json(path, HINT) if path.exists() else {}
    lines, missing = folder.metrics(), [found.why_none] if found.why_none else []
    if not lines:
        missing.append("metrics.jsonl has no lines: there are no curves.")
    if folder.is_finished and not result.data:
        missing.append("How the data were read: the version that made this run did not record it.")
    command = command_of(config) or environment.get("command_line", "")
    scored = found.scored.evaluation if found.scored else None
    objective = OBJECTIVES.get(config.get("objective") or "")
    verdict = objective.in_words(result.metrics) if objective else ""
    return RunRecord(folder.path, config, environment, result, lines, command, scored, found.answers, missing, verdict)


def _scored_again(folder: RunFolder, result: TrainingResult) -> _Kept:
    """The predictions that a run has kept, scored on its data, which are read again."""
    config = folder.config
    try:
        source, limits = run_data(config), (config.get("limit"), config.get("limit_dev"))
        with quietly():
            split = source.read_dev("dev", limits[1]) if has_dev(config) else source.read("train", True, limits[0])
    except UserError as error:
        return _not_scored(f"{DATA_GONE}: {error.message}")
    if config.get("data_digests", {}).get(split.name) != split.examples.digest:
        return _not_scored(f"{DATA_GONE}: the {split.name} data have changed since it was trained.")
    return _scored(folder, result, source.task, split)


def _scored(folder: RunFolder, result: TrainingResult, task: Task, split: Split) -> _Kept:
    kind = KINDS[task.kind]
    try:
        predictions = kind.kept_predictions(folder.path)
        if not predictions or len(predictions) != len(split):
            return _not_scored("it has kept no predictions of these examples.")
        with quietly():
            worst = worst_mistakes(task, split, predictions, count=len(split))
            scored = score_split(task, folder.path.name, split, predictions, worst)
        compared = scored.compared
        answers = Answers(
            in_words=kind.in_words(task, compared, scored.evaluation.metrics),
            confidences=kind.confidences(task, predictions, compared),
            error_types=kind.error_types(task, compared),
            values=kind.values(compared),
        )
    except (ValueError, KeyError, TypeError) as error:
        return _not_scored(f"its predictions cannot be read ({type(error).__name__}: {error}).")
    evaluation = replace(scored.evaluation, baseline=result.baseline, split=result.split or split.name)
    return _Kept(replace(scored, evaluation=evaluation), answers)


def _not_scored(why: str) -> _Kept:
    return _Kept(why_none=f"Errors, intervals and calibration: {why}")


def _compared(read: Sequence[_Read]) -> Evaluation | None:
    """The evaluations of the runs, each beside the first; None where they are not of the same examples."""
    scored = [each.scored for each in read if each.scored]
    if len(scored) < len(read):
        return None
    names = [each.record.path for each in read]
    try:
        others = [beside(scored[0], each) for each in scored[1:]]
    except UserError as error:
        say(error.message)
        _say_which_share_examples(names, scored)
        return None
    named = [replace(each, model=str(name)) for each, name in zip((scored[0].evaluation, *others), names, strict=True)]
    return replace(named[0], others=named[1:])


def _say_which_share_examples(paths: Sequence[Path], scored: Sequence[Scored]) -> None:
    """Name the first runs that were scored on the same examples, if there are two such runs."""
    for first in scored:
        alike = [path for path, each in zip(paths, scored, strict=True) if each.split == first.split]
        if alike[1:]:
            say(f"scored on the same examples: bert report {' '.join(map(quoted, alike))}")
            return


def _named_apart(records: Sequence[RunRecord]) -> list[RunRecord]:
    """The records, with their paths for names where two have the same one."""
    names = [each.name for each in records]
    return list(records) if len(set(names)) == len(names) else [replace(each, label=str(each.path)) for each in records]


def _summary(record: RunRecord) -> dict[str, Any]:
    intervals = record.evaluation.confidence_intervals if record.evaluation else {}
    kept = {"metrics": record.result.metrics, "confidence_intervals": intervals, "baseline": record.result.baseline}
    named = {"run": str(record.path), "task": record.result.task, "result": record.sentence}
    return {**named, **kept, "missing": list(record.missing)}


def _comparison(records: Sequence[RunRecord], compared: Evaluation) -> dict[str, Any]:
    """The first evaluation, and what a comparison adds: differences, options, and the examples that one run alone gets right."""
    names = [each.name for each in records]
    options = {str(name): dict(zip(names, values, strict=True)) for name, *values in options_table(records).rows}
    differ = [disagreements(records[0], record)[:MOST_SHOWN] for record in records[1:]]
    others = [
        {"model": each.model, "metrics": each.metrics, "to_first": each.to_first, "disagreements": found}
        for each, found in zip(compared.others, differ, strict=True)
    ]
    return {**replace(compared, mistakes=[], others=[]).to_json(), "options": options, "others": others}
