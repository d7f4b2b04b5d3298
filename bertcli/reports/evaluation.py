"""The result of an evaluation, and its tables."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

from bertcli.data.results import Result, Rows
from bertcli.reports.tables import INTERVAL, Table, interval_text, score_table, signed

MOST_LABELS = 20  # whose confusion matrix is shown; of more labels, the pairs most often confused
LONGEST = 160  # characters of a text that are shown
LABEL_SCORES = ["precision", "recall", "f1", "support"]


@dataclass(frozen=True)
class Evaluation(Result):
    """The scores of a model or of a file of predictions, times 100, as the paper prints them; thresholds are not."""

    task: str
    split: str
    model: str
    examples: int
    metrics: dict[str, float] = field(default_factory=dict)
    paper: dict[str, float] = field(default_factory=dict)  # "size metric" -> score
    paper_splits: dict[str, str] = field(default_factory=dict)  # the split of each of them
    confidence_intervals: dict[str, list[float]] = field(default_factory=dict)  # 95 %, by bootstrap
    labels: dict[str, dict[str, float]] = field(default_factory=dict)  # -> precision, recall, f1, support
    confusion_matrix: list[list[int]] = field(default_factory=list)  # [true, predicted], in the order of the labels
    mistakes: list[dict[str, Any]] = field(default_factory=list)
    others: list[Evaluation] = field(default_factory=list)
    other_splits: list[Evaluation] = field(default_factory=list)  # a second dev set
    to_first: dict[str, dict[str, Any]] = field(default_factory=dict)  # difference to the first model, by metric
    baseline: dict[str, dict[str, Any]] = field(default_factory=dict)  # scores of the guess and of a bag of words
    remarks: list[str] = field(default_factory=list)  # what may make the scores higher than those of new examples

    @property
    def rows(self) -> Rows:
        """A row for each model, split and metric: the score, its 95 % interval, and the paper's of base and large."""
        about = {"task": self.task, "split": self.split, "model": self.model, "examples": self.examples}
        own = []
        for metric, score in self.metrics.items():
            low, high = self.confidence_intervals.get(metric, (None, None))
            paper = {f"paper_{size}": self.paper.get(f"{size} {metric}") for size in ("base", "large")}
            beside = {name: found["metrics"].get(metric) for name, found in self.baseline.items()}
            own.append({**about, "metric": metric, "score": score, "low": low, "high": high, **paper, **beside})
        return own + [row for each in (*self.others, *self.other_splits) for row in each.rows]

    def to_json(self) -> dict[str, Any]:
        """The result as `--json` prints it; `confidence_interval` is that of the first metric."""
        main = next(iter(self.confidence_intervals.values()), None)
        paper = {name: (name.split()[1], score) for name, score in self.paper.items()}
        known = [(name, metric, score) for name, (metric, score) in paper.items() if metric in self.metrics]
        differences = {name: round(self.metrics[metric] - score, 6) for name, metric, score in known}
        more = {name: [each.to_json() for each in getattr(self, name)] for name in ("others", "other_splits")}
        return {**asdict(self), **more, "difference": differences, "confidence_interval": main}


def evaluation_tables(result: Evaluation) -> list[Table]:
    """The scores, also by label, and the confusion matrix; of several models only their scores; then the mistakes."""
    if result.others:
        tables = [_side_by_side(result)]
    else:
        scores = score_table(result.task, result.split, result.metrics, result.confidence_intervals, result.baseline)
        tables = [replace(scores, title=f"{result.model} on {scores.title}, {result.examples:,} examples")]
        if result.labels:
            tables.append(label_table("by label", result.labels))
        tables += [confusion_table(result)] if result.confusion_matrix else []
    for other in result.other_splits:
        scores, *more = evaluation_tables(other)
        tables += [replace(scores, title=f"{other.split}, {other.examples:,} examples"), *more]
    return tables + [_mistakes(each) for each in (result, *result.others) if each.mistakes]


def _side_by_side(first: Evaluation) -> Table:
    """The models below each metric, then the paper's scores."""
    rows: list[list[object]] = []
    for metric, score in first.metrics.items():
        rows += [_model_row(each, metric) for each in (first, *first.others) if metric in each.metrics]
        for name in (f"{size} {metric}" for size in ("base", "large")):
            if name in first.paper:
                source = f"paper {name.split()[0]}, {first.paper_splits[name]}"
                rows.append([metric, source, first.paper[name], None, signed(first.paper[name] - score), None, None])
    columns = ["metric", "model", "score", INTERVAL, "to the first", f"its {INTERVAL}", "significant"]
    return Table(f"{first.task} {first.split.replace('_', '-')}", columns, rows)


def _model_row(result: Evaluation, metric: str) -> list[object]:
    score = [metric, result.model, round(result.metrics[metric], 4)]
    interval = interval_text(result.confidence_intervals.get(metric))
    if metric not in result.to_first:
        return [*score, interval, None, None, None]
    found = result.to_first[metric]
    significant = "yes" if found["significant"] else "no"
    return [*score, interval, signed(found["difference"]), interval_text(found["confidence_interval"]), significant]


def label_table(title: str, labels: dict[str, dict[str, float]]) -> Table:
    """The scores of each label, with dashes for labels that do not occur."""
    rows = [[name, *((of[key] if of["support"] else None) for key in LABEL_SCORES)] for name, of in labels.items()]
    return Table(title, ["label", *LABEL_SCORES], rows)


def confusion_table(result: Evaluation) -> Table:
    """A row per true label; where there are many labels, the pairs most often confused."""
    names, confusion = list(result.labels), result.confusion_matrix
    if len(names) > MOST_LABELS:
        cells = ((count, i, j) for i, row in enumerate(confusion) for j, count in enumerate(row) if count and i != j)
        worst = sorted(cells, key=lambda cell: -cell[0])[:MOST_LABELS]
        pairs = [[names[true], names[guess], count] for count, true, guess in worst]
        return Table("most often confused", ["true", "predicted", "examples"], pairs)
    numbers = [str(number) for number in range(1, len(names) + 1)]
    fits = len("  ".join([*names, max(names, key=len)])) < LONGEST // 2
    heads = names if fits else [f"{number} {name}" for number, name in zip(numbers, names, strict=True)]
    rows = [[head, *row] for head, row in zip(heads, confusion, strict=True)]
    return Table("confusion matrix", ["true \\ predicted", *(names if fits else numbers)], rows)


def _mistakes(result: Evaluation) -> Table:
    columns = [name for name in result.mistakes[0] if any(mistake[name] is not None for mistake in result.mistakes)]
    rows = [[_shown(mistake[column]) for column in columns] for mistake in result.mistakes]
    heads = [column.replace("_", " ") for column in columns]
    return Table(f"most confident or largest errors of {result.model}", heads, rows)


def _shown(cell: Any) -> object:
    """A cell cut to the longest text that is shown; several labels, entities or answers separated by |."""
    text = " | ".join(cell) if isinstance(cell, list) else cell
    return text[: LONGEST - 1] + "…" if isinstance(text, str) and len(text) > LONGEST else text
