"""Tables of results: scores beside the paper's, the runs of a sweep and the spread of their scores."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from bertcli.tasks import TASKS
from bertcli.tasks.conll2003 import CONLL2003
from bertcli.tasks.paper import FROZEN_SCORES
from bertcli.tasks.task import Task
from bertcli.training.result import BAG_OF_WORDS, CROSS_VALIDATED, GUESS, TrainingResult

INTERVAL = "95 % interval"
MISMATCHED = "dev_mismatched_"  # before the metrics of MNLI's second dev set
NOTES = {"best": "best", "collapsed": "collapsed: one answer for every example", "stopped_early": "stopped early"}


NUMBER = re.compile(r"|–|[-+−]?\d[\d,.]*(e-\d+)?( ?%)?( to [-+−]?\d[\d,.]*)?")


@dataclass(frozen=True)
class Table:
    """A title, the names of the columns, and the cells."""

    title: str
    columns: list[str]
    rows: Sequence[Sequence[object]]

    @property
    def numeric_columns(self) -> list[bool]:
        """Whether each column holds numbers only, which are aligned to the right."""
        cells = [[cell_text(cell) for cell in row] for row in self.rows]
        return [all(NUMBER.fullmatch(row[place]) for row in cells) for place in range(len(self.columns))]


def score_table(
    task_name: str,
    split: str,
    metrics: dict[str, float],
    intervals: dict[str, list[float]] | None = None,
    baseline: dict[str, dict[str, Any]] | None = None,
) -> Table:
    """A row per metric: our score, those of the baselines, and the paper's with their difference; no empty columns."""
    rows = []
    for metric, value in metrics.items():
        where = MISMATCHED.rstrip("_") if metric.startswith(MISMATCHED) else split
        plain = metric.removeprefix(MISMATCHED)
        name = plain if where == split else f"{plain}, mismatched"
        row = {"metric": name, "ours": round(value, 4), INTERVAL: interval_text((intervals or {}).get(metric))}
        beside = {name: (baseline or {}).get(name, {"metrics": {}})["metrics"] for name in (BAG_OF_WORDS, GUESS)}
        row |= {name.replace("_", " "): scores.get(metric) for name, scores in beside.items()}
        rows.append(row | _of_paper(TASKS.get(task_name), where, plain, value))
    return _without_empty_columns(", ".join(filter(None, (task_name, split.replace("_", "-")))), rows)


def _without_empty_columns(title: str, rows: list[dict[str, Any]]) -> Table:
    columns = [name for name in rows[0] if any(row[name] is not None for row in rows)] if rows else []
    return Table(title, columns, [[row[name] for name in columns] for row in rows])


def _of_paper(task: Task | None, split: str, metric: str, value: float) -> dict[str, object]:
    """The paper's scores, each with our difference to it and its split."""
    scores, splits = (task.paper_scores(split), task.paper_splits(split)) if task else ({}, {})

    def beside(name: str) -> str | None:
        score = scores.get(name)
        return None if score is None else f"{score} ({signed(value - score)}) {splits[name].partition('_')[0]}"

    return {f"paper {size}": beside(f"{size} {metric}") for size in ("base", "large")}


def signed(value: float) -> str:
    """A difference, with its sign."""
    return f"{value:+.2f}"


def interval_text(ends: list[float] | None) -> str | None:
    """The two ends of an interval."""
    return f"{ends[0]:.2f} to {ends[1]:.2f}" if ends else None


def result_tables(result: TrainingResult) -> list[Table]:
    """The scores of a training; of several runs also each run, and the spread of their scores."""
    tables = [score_table(result.task, result.split, result.metrics, baseline=result.baseline)]
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


def cell_text(cell: object) -> str:
    """A cell as text: two decimals, three digits of a small number, a dash for nothing."""
    if cell is None or cell == "":
        return "–"
    if isinstance(cell, float):
        return f"{cell:.2f}" if abs(cell) >= 0.01 or not cell else f"{cell:.3g}"
    return f"{cell:,}" if isinstance(cell, int) and not isinstance(cell, bool) and abs(cell) >= 10_000 else str(cell)


def _words(names: Iterable[str]) -> list[str]:
    return [name.replace("_", " ") for name in names]


def summary_lines(result: TrainingResult) -> list[str]:
    """Whether a fine-tuned model beats the better of the bag of words and the guess, and where it is."""
    lines = []
    if result.baseline:
        name, found = min(result.baseline.items(), key=lambda each: each[1]["difference"])  # the better of them
        side = "above" if found["difference"] >= 0 else "below"
        chance = ": more than chance" if found["significant"] else ": may be chance" if found["difference"] else ""
        interval = interval_text(found["confidence_interval"])
        difference = f"{abs(found['difference']):.1f} points {side}" if found["difference"] else "as good as"
        lines.append(f"{difference} the {name.replace('_', ' ')} ({INTERVAL} {interval}{chance})")
    if result.baseline and result.split == CROSS_VALIDATED:
        then = "; after that, all weights were trained on all examples" if result.best_step else ", kept as it is"
        lines.append(f"ours: a head on the frozen model{then}")
    if result.advice:
        is_kept = result.split == "dev" and not result.best_step  # the head as it was fitted
        lines.append(f"{'Training did not help' if is_kept else 'It has not learnt the task'}. Try: {result.advice}")
    return [*lines, f"model: {result.model}   report: {result.run}/report.html"]
