"""The report of one run as the sections of a page."""

from __future__ import annotations

from typing import Any

from bertcli import number_of, without_exponent
from bertcli.metrics.calibration import calibration
from bertcli.reports.charts import histogram, scatter_chart
from bertcli.reports.curves import run_curves
from bertcli.reports.evaluation import MOST_LABELS, confusion_table, label_table
from bertcli.reports.record import COUNTED, RunRecord
from bertcli.reports.rendering import unescaped
from bertcli.reports.sections import Page, Section
from bertcli.reports.tables import Table, result_tables, summary_lines
from bertcli.training.result import CROSS_VALIDATED

MOST_ERRORS = 200
MOST_STEPS = 8  # whose filled sentences are shown
COUNTS = {**COUNTED, "cut_share": "cut, %", "inputs": "inputs"}


def run_page(record: RunRecord) -> Page:
    """The sections for which a run has something to show."""
    result = record.result
    sections = [_scores(record), Section("Training", charts=run_curves(record.lines)), _words(record), *_fills(record)]
    sections += [_errors(record), _calibration(record), _mistakes(record), _data(record), _repeat(record)]
    steps = [number_of(result.steps, "step")] if result.steps else []
    kicker = " · ".join([record.config.get("command", "run"), result.task, *steps, f"seed {result.seed}"])
    return Page(record.name, record.sentence, [each for each in sections if each], record.missing, kicker)


def _scores(record: RunRecord) -> Section | None:
    result = record.result
    if not result.metrics:
        return None
    beside = summary_lines(result)[:1] if result.baseline else []
    texts = [*(f"{line}." for line in beside), *_overlaps(result.data), *[unescaped(note) for note in result.notes]]
    return Section("Scores", texts, tables=[record.scores, *result_tables(result)[1:]])


def _errors(record: RunRecord) -> Section | None:
    found, answers = record.evaluation, record.answers
    if found is None or answers is None:
        return None
    own = f"of {found.split}"
    if found.split == CROSS_VALIDATED:
        own = "that it was trained on, each by a head that had not seen it"
    text = f"Its answers to the {found.examples:,} examples {own}."
    confusion = confusion_table(found) if found.confusion_matrix else Table("", [], [])
    is_matrix = len(found.labels) <= MOST_LABELS
    tables = [*([] if is_matrix else [confusion]), _by_label(found.labels), _error_types(answers.error_types)]
    shown = [table for table in tables if table.rows]
    charts = _residuals(answers.values) if answers.values else []
    return Section("What it gets right and wrong", [text], charts, shown, confusion if is_matrix else None)


def _error_types(counts: dict[str, int]) -> Table:
    rows = [[name, count, f"{100 * count / sum(counts.values()):.1f} %"] for name, count in counts.items()]
    return Table("answers by kind of error", ["answer", "count", "share"], rows)


def _by_label(labels: dict[str, dict[str, float]]) -> Table:
    """The scores of each label; of many, those with the lowest F1 among the labels that occur."""
    if len(labels) <= MOST_LABELS:
        return label_table("by label", labels)
    occurring = [name for name in labels if labels[name]["support"]]
    lowest = sorted(occurring, key=lambda name: labels[name]["f1"])[:MOST_LABELS]
    return label_table(f"the {len(lowest)} labels with the lowest F1", {name: labels[name] for name in lowest})


def _residuals(values: Any) -> list[Any]:
    import numpy as np

    number = without_exponent
    points = [(true, given, f"true {number(true)}, predicted {number(given)}") for true, given in values[:1000]]
    ends = [min(true for true, _ in values), max(true for true, _ in values)]
    counts, edges = np.histogram([given - true for true, given in values], bins=15)
    errors = histogram("Errors: predicted minus true", counts.tolist(), edges.round(3).tolist(), "error")
    return [scatter_chart("Predicted values", points, "true value", [(end, end, "") for end in ends]), errors]


def _calibration(record: RunRecord) -> Section | None:
    confidences = record.answers.confidences if record.answers else ()
    if not confidences:
        return None
    error, bins = calibration(confidences)
    points = [
        (100 * p, 100 * right, f"says {100 * p:.0f} %, is right {100 * right:.0f} % of the time ({count:,} decisions)")
        for p, right, count in bins
    ]
    text = (
        f"Points on the line are well calibrated: of predictions with a probability of 80 %, 80 % are right. They are off by"
        f" {100 * error:.1f} points on average (expected calibration error, ten bins, {len(confidences):,} decisions)."
    )
    if record.result.split == CROSS_VALIDATED and record.result.steps:
        text += " They are of the head on the frozen model; once all weights are trained, it may be overconfident."
    right = scatter_chart(
        "Right, %", points, "its probability, %", [(0, 0, ""), (100, 100, "")], range=(0, 100), xrange=(0, 100)
    )
    rows = [[f"{100 * p:.1f} %", f"{100 * share:.1f} %", count] for p, share, count in bins]
    return Section("Calibration", [text], [right], [Table("", ["mean probability", "right", "decisions"], rows)])


def _mistakes(record: RunRecord) -> Section | None:
    found = record.evaluation
    if found is None or not found.mistakes:
        return None
    begin = f"{MOST_ERRORS} of its" if len(found.mistakes) > MOST_ERRORS else "Its"
    order = "largest" if {"error", "wrong_entities", "wrong_words"} & found.mistakes[0].keys() else "most confident"
    text = f"{begin} {number_of(len(found.mistakes), 'error')}, the {order} first."
    return Section("Most confident errors", [text], examples=found.mistakes[:MOST_ERRORS])


def _data(record: RunRecord) -> Section | None:
    data = record.result.data
    if not data:
        return None
    train = data.get("train", {}).get("histogram")
    charts = [histogram("Lengths of the training inputs", train["counts"], train["edges"], "tokens")] if train else []
    tables = [table for table in (_counts(data), _lengths(data), _labels(data), *_facts(data)) if table.rows]
    return Section("Data", [*_overlaps(data), *_cut(data)], charts, tables)


def _counts(data: dict[str, dict[str, Any]]) -> Table:
    columns = [name for name in COUNTS if any(name in split for split in data.values())]
    rows = [[name, *(split.get(key) for key in columns)] for name, split in data.items()]
    return Table("how the data were read", ["split", *(COUNTS[key] for key in columns)], rows if columns else [])


def _lengths(data: dict[str, dict[str, Any]]) -> Table:
    rows = [[name, *split["tokens"].values()] for name, split in data.items() if "tokens" in split]
    return Table("lengths in tokens, as the model reads them", ["split", "median", "95 %", "longest"], rows)


def _facts(data: dict[str, dict[str, Any]]) -> list[Table]:
    facts = {name: split["facts"] for name, split in data.items() if "facts" in split}
    return [Table(name, ["", ""], [[key, value] for key, value in each.items()]) for name, each in facts.items()]


def _labels(data: dict[str, dict[str, Any]]) -> Table:
    splits = [name for name, split in data.items() if split.get("labels")]
    names = list(dict.fromkeys(label for name in splits for label in data[name]["labels"]))
    rows = [[label, *(data[name]["labels"].get(label, 0) for name in splits)] for label in names]
    title = "labels" if len(names) <= MOST_LABELS else "the most frequent labels"
    return Table(title, ["label", *splits], rows[:MOST_LABELS])


def _overlaps(data: dict[str, dict[str, Any]]) -> list[str]:
    """What makes scores too high."""
    return [
        f"{split['in_train']:,} of the {split['examples']:,} {name} examples"
        f" ({100 * split['in_train'] / split['examples']:.1f} %) are training examples too: a score on {name} is too high."
        for name, split in data.items()
        if split.get("in_train")
    ]


def _cut(data: dict[str, dict[str, Any]]) -> list[str]:
    """What the model does not read."""
    splits = ((name, of) for name, of in data.items() if of.get("cut"))
    return [f"{name}: {of['cut']:,} {of['cut_what']} were cut ({of['cut_share']:.1f} %)." for name, of in splits]


def _words(record: RunRecord) -> Section | None:
    words = record.result.words
    if not words:
        return None
    names = ["words", "right, %", "count"]
    cells = ([[row["words"], row["accuracy"], row["count"]] for row in rows] for rows in words.values())
    tables = [Table(title, names, rows) for title, rows in zip(words, cells, strict=True)]
    return Section("Which words it finds", tables=tables)


def _fills(record: RunRecord) -> list[Section]:
    lines = [line for line in record.lines if "fills" in line]
    if not lines:
        return []
    chosen = lines[::-1][:: -(-len(lines) // MOST_STEPS)][::-1]
    tables = []
    for number, sentence in enumerate(chosen[-1]["fills"]):
        guesses = [(line["step"], line["fills"][number]["guesses"]) for line in chosen if number < len(line["fills"])]
        rows = [[step, *(f"{token} {100 * share:.0f} %" for token, share in best)] for step, best in guesses]
        columns = ["step", *(f"guess {place}" for place in range(1, len(guesses[0][1]) + 1))]
        tables.append(Table(f"{sentence['text']}  ({sentence['answer']})", columns, rows))
    text = "The best guesses for a masked word of the evaluation data during training; the true word is in brackets."
    return [Section("Filled sentences", [text], tables=tables)]


def _repeat(record: RunRecord) -> Section:
    environment = {key: value for key, value in record.environment.items() if key not in ("packages", "command_line")}
    environment |= record.environment.get("packages", {})
    options = [[name.replace("_", " "), str(value)] for name, value in record.options.items()]
    typed = record.environment.get("command_line")
    text = ["This command repeats it:"]
    machine = [[name, str(value)] for name, value in environment.items()]
    tables = [Table("options", ["", ""], options), Table("environment", ["", ""], machine)]
    more = [["typed as", typed]] if typed else []
    speed = [["tokens per second, without padding", round(record.result.tokens_per_second)], *more]
    return Section("How to repeat it", text, tables=[Table("run", ["", ""], speed), *tables], commands=[record.command])
