"""The tables of a result: scores beside the paper's, the runs of a sweep and their spread."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from bertcli.tasks import TASKS
from bertcli.tasks.conll2003 import CONLL2003
from bertcli.tasks.paper import FROZEN_SCORES
from bertcli.training.result import TrainingResult

INTERVAL = "95 % interval"


@dataclass(frozen=True)
class Table:
    """A title, the names of the columns, and the cells."""

    title: str
    columns: list[str]
    rows: list[list[object]]


Intervals = dict[str, list[float]]


def score_table(task_name: str, split: str, metrics: dict[str, float], intervals: Intervals | None = None) -> Table:
    """One row a metric: ours, the paper's by size with the difference to it, and the splits that the paper's are of."""
    task = TASKS.get(task_name)
    rows: list[list[object]] = []
    for metric, value in metrics.items():
        plain = metric.removeprefix("dev_mismatched_")
        where = split if plain == metric else "dev_mismatched"
        paper = task.paper_scores(where) if task else {}
        sizes = [paper.get(f"{size} {plain}") for size in ("base", "large")]
        splits = task.paper_splits(where) if task else {}
        of = dict.fromkeys(splits[name] for name in (f"base {plain}", f"large {plain}") if name in splits)
        beside = [cell for size in sizes for cell in (size, signed(value - size) if size else None)]
        interval = [interval_text(intervals.get(metric))] if intervals else []
        rows.append([task_name, where, plain, round(value, 4), *interval, *beside, ", ".join(of) or None])
    ours = ["task", "split", "metric", "ours", *([INTERVAL] if intervals else [])]
    papers = ["paper base", "difference", "paper large", "difference", "paper's split"]
    return Table("", ours + papers, rows)


def signed(value: float) -> str:
    """A difference, with its sign."""
    return f"{value:+.2f}"


def interval_text(ends: list[float] | None) -> str | None:
    """The two ends of an interval."""
    return f"{ends[0]:.2f} to {ends[1]:.2f}" if ends else None


def result_tables(result: TrainingResult) -> list[Table]:
    """What a person wants to see of a result: the scores, and for several runs each of them and their spread."""
    tables = [score_table(result.task, result.split, result.metrics)]
    if result.runs:
        tables.append(_runs(result.runs, FROZEN_SCORES if result.task == CONLL2003.name else {}))
    if result.spread:
        tables.append(_spread(result.spread))
    return tables


def _runs(runs: list[dict[str, Any]], paper: dict[str, float]) -> Table:
    settings, metrics = list(runs[0]["setting"]), list(runs[0]["metrics"])
    shows_paper = paper and "frozen_layers" in settings
    notes = {"best": "best", "collapsed": "collapsed: says the same of every example", "stopped_early": "stopped early"}
    rows: list[list[object]] = []
    for run in runs:
        beside = [paper[run["setting"]["frozen_layers"]]] if shows_paper else []
        last = [f"{run['best_step']} of {run['steps']}", ", ".join(words for key, words in notes.items() if run[key])]
        rows.append([*map(str, run["setting"].values()), *run["metrics"].values(), *beside, *last])
    columns = [*_words(settings), *metrics, *(["paper base f1"] if shows_paper else []), "best step", "note"]
    return Table("runs", columns, rows)


def _spread(spread: list[dict[str, Any]]) -> Table:
    names = ["metric", "median", "standard_deviation", "minimum", "maximum", "runs", "collapsed"]
    rows = [[*map(str, row["setting"].values()), *(row[name] for name in names)] for row in spread]
    return Table("spread", [*_words(spread[0]["setting"]), *_words(names)], rows)


def _words(names: Iterable[str]) -> list[str]:
    return [name.replace("_", " ") for name in names]
