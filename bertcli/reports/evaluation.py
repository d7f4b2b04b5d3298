"""The result of an evaluation, and the tables a person sees of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any, cast

from bertcli.reports.tables import INTERVAL, Table, interval_text, score_table, signed

MOST_LABELS = 20  # of which the whole confusion is shown; of more, the most confused pairs
LONGEST = 160  # characters of a text that are shown


@dataclass(frozen=True)
class Evaluation:
    """The scores of a model or of a file of predictions, times 100, as the paper prints them; thresholds are not."""

    task: str
    split: str
    model: str
    examples: int
    metrics: dict[str, float] = field(default_factory=dict)
    paper: dict[str, float] = field(default_factory=dict)  # "size metric" -> score
    paper_splits: dict[str, str] = field(default_factory=dict)  # which split each of those is of
    confidence_intervals: dict[str, list[float]] = field(default_factory=dict)  # 95 %, by bootstrap
    labels: dict[str, dict[str, float]] = field(default_factory=dict)  # -> precision, recall, f1, support
    confusion_matrix: list[list[int]] = field(default_factory=list)  # [true, predicted], in the order of the labels
    mistakes: list[dict[str, Any]] = field(default_factory=list)
    others: list[Evaluation] = field(default_factory=list)
    other_splits: list[Evaluation] = field(default_factory=list)  # a second dev set
    to_first: dict[str, dict[str, Any]] = field(default_factory=dict)  # of the others, by metric

    def to_json(self) -> dict[str, Any]:
        """The result as `--json` prints it; `confidence_interval` is that of the first metric."""
        main = next(iter(self.confidence_intervals.values()), None)
        paper = {name: (score, self.metrics.get(name.split()[1])) for name, score in self.paper.items()}
        differences = {name: round(own - score, 6) for name, (score, own) in paper.items() if own is not None}
        more = {name: [each.to_json() for each in getattr(self, name)] for name in ("others", "other_splits")}
        return {**asdict(self), **more, "difference": differences, "confidence_interval": main}


def evaluation_tables(result: Evaluation) -> list[Table]:
    """The scores, those of each label and the confusion matrix; of several models their scores side by side; the mistakes."""
    if result.others:
        tables = [_side_by_side(result)]
    else:
        tables = [score_table(result.task, result.split, result.metrics, result.confidence_intervals)]
        tables += [_labels(result)] if result.labels else []
        tables += [_confusion(result)] if result.confusion_matrix else []
    for other in result.other_splits:
        scores, *more = evaluation_tables(other)
        tables += [replace(scores, title=f"{other.split}, {other.examples:,} examples"), *more]
    return tables + [_mistakes(each) for each in (result, *result.others) if each.mistakes]


def _side_by_side(first: Evaluation) -> Table:
    """Below each metric the models, and the paper's scores."""
    rows: list[list[object]] = []
    for metric, score in first.metrics.items():
        for each in (model for model in (first, *first.others) if metric in model.metrics):
            found = each.to_first.get(metric, {})
            difference = signed(found["difference"]) if found else None
            own, its = interval_text(each.confidence_intervals.get(metric)), found.get("confidence_interval")
            significant = ("yes" if found["significant"] else "no") if found else None
            score_of = round(each.metrics[metric], 4)
            rows.append([metric, each.model, score_of, own, difference, interval_text(its), significant])
        for size in ("base", "large"):
            name = f"{size} {metric}"
            if name in first.paper:
                difference = signed(first.paper[name] - score)
                of = f"paper {size}, {first.paper_splits[name]}"
                rows.append([metric, of, first.paper[name], None, difference, None, None])
    columns = ["metric", "model", "score", INTERVAL, "to the first", f"its {INTERVAL}", "significant"]
    return Table(f"{first.task} {first.split}", columns, rows)


def _labels(result: Evaluation) -> Table:
    columns = ["precision", "recall", "f1", "support"]
    rows = [[name, *(scores[column] for column in columns)] for name, scores in result.labels.items()]
    return Table("by label", ["label", *columns], rows)


def _confusion(result: Evaluation) -> Table:
    """A row for each true label; where there are many, the pairs most often confused."""
    names, confusion = list(result.labels), result.confusion_matrix
    if len(names) > MOST_LABELS:
        pairs = [(names[true], guess, count) for true, row in enumerate(confusion) for guess, count in enumerate(row)]
        wrong = [[true, names[guess], count] for true, guess, count in pairs if count and true != names[guess]]
        worst = sorted(wrong, key=lambda row: -cast(int, row[2]))[:MOST_LABELS]
        return Table("most confused", ["true", "predicted", "examples"], worst)
    fits = sum(map(len, names)) < LONGEST // 2
    columns = names if fits else [str(number) for number in range(1, len(names) + 1)]
    shown = names if fits else [f"{number} {name}" for number, name in enumerate(names, 1)]
    rows: list[list[object]] = [[name, *row] for name, row in zip(shown, confusion, strict=True)]
    return Table("confusion", ["true \\ predicted", *columns], rows)


def _mistakes(result: Evaluation) -> Table:
    columns = [name for name in result.mistakes[0] if any(mistake[name] is not None for mistake in result.mistakes)]
    rows = [[_shown(mistake[column]) for column in columns] for mistake in result.mistakes]
    return Table(f"worst mistakes of {result.model}", [column.replace("_", " ") for column in columns], rows)


def _shown(cell: Any) -> object:
    """A cell of few enough characters; several labels, entities or answers with a stroke between."""
    text = " | ".join(cell) if isinstance(cell, list) else cell
    return text[: LONGEST - 1] + "…" if isinstance(text, str) and len(text) > LONGEST else text
