"""Tables of results: scores beside the paper's, the runs of a sweep and the spread of their scores."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from bertcli.tasks import TASKS
from bertcli.tasks.conll2003 import CONLL2003
from bertcli.tasks.paper import FROZEN_SCORES
from bertcli.tasks.task import Task
from bertcli.training.result import TrainingResult

INTERVAL = "95 % interval"
MISMATCHED = "dev_mismatched_"  # before the metrics of MNLI's second dev set
NOTES = {"best": "best", "collapsed": "collapsed: one answer for every example", "stopped_early": "stopped early"}


@dataclass(frozen=True)
class Table:
    """A title, the names of the columns, and the cells."""

    title: str
    columns: list[str]
    rows: list[list[object]]


def score_table(
    task_name: str, split: str, metrics: dict[str, float], intervals: dict[str, list[float]] | None = None
) -> Table:
    """A row per metric: our score, the paper's by model size with the difference, and the split of the paper's scores."""
    rows: list[list[object]] = []
    for metric, value in metrics.items():
        where = MISMATCHED.rstrip("_") if metric.startswith(MISMATCHED) else split
        plain = metric.removeprefix(MISMATCHED)
        interval = [interval_text(intervals.get(metric))] if intervals else []
        paper = _beside_paper(TASKS.get(task_name), where, plain, value)
        rows.append([task_name, where, plain, round(value, 4), *interval, *paper])
    sizes = ["paper base", "difference", "paper large", "difference", "paper's split"]
    return Table("", ["task", "split", "metric", "ours", *([INTERVAL] if intervals else []), *sizes], rows)


def _beside_paper(task: Task | None, split: str, metric: str, value: float) -> list[object]:
    scores, splits = (task.paper_scores(split), task.paper_splits(split)) if task else ({}, {})
    names = [f"base {metric}", f"large {metric}"]
    cells = [(scores[name], signed(value - scores[name])) if name in scores else (None, None) for name in names]
    known = dict.fromkeys(splits[name] for name in names if name in splits)
    return [*cells[0], *cells[1], ", ".join(known) or None]


def signed(value: float) -> str:
    """A difference, with its sign."""
    return f"{value:+.2f}"


def interval_text(ends: list[float] | None) -> str | None:
    """The two ends of an interval."""
    return f"{ends[0]:.2f} to {ends[1]:.2f}" if ends else None


def result_tables(result: TrainingResult) -> list[Table]:
    """The scores of a training; of several runs also each run, and the spread of their scores."""
    tables = [score_table(result.task, result.split, result.metrics)]
    if result.runs:
        tables.append(_runs(result.runs, FROZEN_SCORES if result.task == CONLL2003.name else {}))
    if result.spread:
        tables.append(_spread(result.spread))
    return tables


def _runs(runs: list[dict[str, Any]], paper: dict[str, float]) -> Table:
    settings, metrics = list(runs[0]["setting"]), list(runs[0]["metrics"])
    shows_paper = bool(paper) and "frozen_layers" in settings
    rows: list[list[object]] = []
    for run in runs:
        beside = [paper[run["setting"]["frozen_layers"]]] if shows_paper else []
        notes = ", ".join(words for key, words in NOTES.items() if run[key])
        scores = [*run["metrics"].values(), *beside]
        rows.append([*map(str, run["setting"].values()), *scores, f"{run['best_step']} of {run['steps']}", notes])
    columns = [*_words(settings), *metrics, *(["paper base f1"] if shows_paper else []), "best step", "note"]
    return Table("runs", columns, rows)


def _spread(spread: list[dict[str, Any]]) -> Table:
    names = ["metric", "median", "standard_deviation", "minimum", "maximum", "runs", "collapsed"]
    rows = [[*map(str, row["setting"].values()), *(row[name] for name in names)] for row in spread]
    return Table("spread", [*_words(spread[0]["setting"]), *_words(names)], rows)


def _words(names: Iterable[str]) -> list[str]:
    return [name.replace("_", " ") for name in names]
