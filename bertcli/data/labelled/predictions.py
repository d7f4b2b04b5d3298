"""Predictions that were made before, read into records: one function a kind."""

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from bertcli import say
from bertcli.data.labelled.conll import LIST_ENDINGS, Sentences, read_conll
from bertcli.data.labelled.squad import Questions
from bertcli.data.labelled.tables import DELIMITERS, Rows, check_file, ending_of, json_value, read_rows
from bertcli.data.packing.text_features import split_labels
from bertcli.data.text.documents import lines_of
from bertcli.errors import UserError
from bertcli.lifecycle.sources import Prepared
from bertcli.tasks.task import Task

Record = dict[str, Any]
Value = TypeVar("Value")
PREDICTION_COLUMNS = (
    "prediction",
    "pred",
    "choice",
    "value",
    "labels",
    "label",
)  # beside the others, `label` is the truth
NUMBERS = ("index", "idx", "id", "guid")  # columns that may say which example a prediction is of
ROW_ENDINGS = (*DELIMITERS, ".jsonl", ".parquet")
# What is scored for a question that a file leaves out: no true answer equals it, not even an empty one.
NO_PREDICTION = "\N{REPLACEMENT CHARACTER}"


def read_predictions(task: Task, prepared: Prepared, path: Path, na_probs: str | None = None) -> list[Record]:
    """Read one record an example of the split; for questions `na_probs` is a file of their no-answer scores.

    Raises:
        UserError: if the file is not of the task, or has more or fewer predictions than examples.
    """
    records = READ_PREDICTIONS.get(task.kind, _row_predictions)(path, task, prepared)
    if na_probs:
        check_file(Path(na_probs), "Give --na-probs a file.")
        records = _with_null_odds(records, Path(na_probs))
    if task.kind != "span" and len(records) != len(prepared):
        raise UserError(
            f"`{path}` has {len(records)} predictions, the {prepared.split} split of {task.name} {len(prepared)} examples.",
            "Give one prediction an example, in the order of the split"
            + ("." if task.hub[0] else "; those of the part that a run held out: add --model RUN."),
        )
    return records


def kind_of_predictions(path: Path) -> str | None:
    """What the predictions say of the kind of own data: lists of labels are of examples that may have several."""
    rows = read_rows(path) if ending_of(path) in ROW_ENDINGS else None
    cells = rows.column("labels") if rows and "labels" in rows.names else []
    return "multilabel" if any(cell.startswith("[") for cell in cells) else None


def _by_question(path: Path, convert: Callable[[Any], Value], form: str, column: str) -> dict[str, Value]:
    """Read a JSON object of question ids and values, or rows with an `id` and a column of values."""
    rows = read_rows(path) if ending_of(path) in ROW_ENDINGS else None
    try:
        if rows:
            pairs: Any = tuple(zip(rows.column("id"), rows.column(column), strict=True))
        else:
            pairs = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=tuple)
        if not isinstance(pairs, tuple):
            raise TypeError
        read = {key: convert(value) for key, value in pairs}
        if len(read) < len(pairs):
            say(f"{path}: {len(pairs) - len(read)} questions stand in it again; the last {form} counts")
        return read
    except (ValueError, TypeError):
        raise UserError(
            f"`{path}` is not a JSON object of question ids and {form}s.", f"Give the official form: {{id: {form}}}."
        ) from None


def _with_null_odds(records: list[Record], path: Path) -> list[Record]:
    """Add the no-answer scores, and put the records into the order of their file, which decides between equal ones."""
    odds = _by_question(path, _finite, "number", "null_odds")
    without = sum(r["id"] not in odds and r["answer"] not in ("", NO_PREDICTION) for r in records)
    if without:
        raise UserError(
            f"`{path}` has no number for {without:,} of the questions that are answered.",
            "Give the null_odds.json that was written beside the predictions.",
        )
    place = {id_: number for number, id_ in enumerate(odds)}
    ordered = sorted(records, key=lambda record: place.get(record["id"], -1))
    return [
        {**record, "null_odds": None if record["answer"] == NO_PREDICTION else odds.get(record["id"])}
        for record in ordered
    ]


def _finite(value: Any) -> float:
    if not math.isfinite(float(value)):
        raise ValueError
    return float(value)


def _answer(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _span_predictions(path: Path, task: Task, prepared: Prepared) -> list[Record]:
    """Read {question: answer}; a question without one scores 0, and is counted."""
    answers = _by_question(path, _answer, "text", "answer")
    assert isinstance(prepared.examples, Questions)
    known = {question.id for question in prepared.examples.asked}
    given = set(answers)
    if known and not known & given:
        raise UserError(f"`{path}` answers none of the questions of this split.", "Check --split and the task.")
    if known - given:
        say(f"{len(known - given):,} questions have no prediction; they score 0")
    if given - known:
        say(f"{len(given - known):,} predictions are of unknown questions; they are left out")
    return [
        {"id": question.id, "answer": answers.get(question.id, NO_PREDICTION)} for question in prepared.examples.asked
    ]


def _tag_predictions(path: Path, task: Task, prepared: Prepared) -> list[Record]:
    """Read the column `tags` of a table, a list a sentence; or words with their tags in columns, as CoNLL has them."""
    is_table = ending_of(path) in LIST_ENDINGS or "tags" in re.split("[,\t]", next(lines_of(path), "").rstrip())
    if not is_table:
        assert isinstance(prepared.examples, Sentences)
        read, asked = read_conll(path), prepared.examples.words
        pairs = enumerate(zip(read.words, asked, strict=False), 1)
        other = next((number for number, (given, words) in pairs if given != words), None)
        if other and len(read) == len(asked):
            raise UserError(
                f"Sentence {other} of `{path}` has other words than the {prepared.split} split of {task.name}.",
                "Give the sentences of the split, in its order.",
            )
        return _of_types(path, task, read.tags or [])
    rows = read_rows(path)
    if "tags" not in rows.names:
        raise UserError(f"`{path}` has no `tags`.", f"It has {', '.join(rows.names)}.")
    cells = (row.get("tags") for row in rows.cells)
    lists: list[Any] = [json_value(cell) if isinstance(cell, str) else cell for cell in cells]
    strange = next((number for number, tags in enumerate(lists) if not isinstance(tags, list)), None)
    if strange is not None:
        raise UserError(f"{rows.place(strange)} has no list of tags.", 'Give one tag a word: {"tags": ["B-PER", "O"]}')
    return _of_types(path, task, [[str(tag) for tag in tags] for tags in lists])


def _of_types(path: Path, task: Task, tags: list[list[str]]) -> list[Record]:
    """A record a sentence; entities of types that the task has not can only be wrong, which is said."""
    known = {tag.partition("-")[2] for tag in task.labels}
    strange = Counter(tag for tag in chain.from_iterable(tags) if tag.partition("-")[2] not in {"", *known})
    if strange:
        what = ", ".join(f"`{tag}` ({count:,})" for tag, count in strange.most_common(5))
        say(f"{path}: tags of types that {task.name} has not count as errors: {what}")
    return [{"tags": own} for own in tags]


def _row_predictions(path: Path, task: Task, prepared: Prepared) -> list[Record]:
    """Read a column of predictions, a row an example, and how probable they are, where that is there."""
    rows = read_rows(path)
    columns = [name for name in PREDICTION_COLUMNS if name in rows.names]
    if not columns:
        raise UserError(
            f"`{path}` has no column `label`, `prediction` or `value`.", f"Its columns: {', '.join(rows.names[:20])}."
        )
    if len(columns) > 1:
        say(f"{path}: the column `{columns[0]}` is scored, not `{'`, `'.join(columns[1:])}`")
    rows = _in_order(rows, strict=bool(task.hub[0]))
    values = rows.column(columns[0])
    if task.kind == "regress":
        return [{"value": value} for value in _numbers(values, rows)]
    if task.kind == "multilabel":
        several = [split_labels(value, task.files.label_separator, f"`{path}`") for value in values]
        known = _known(chain.from_iterable(several), task, path)
        return [
            {"labels": [_label(label, known, task, rows, row) for label in labels], **_scores(rows, row, task)}
            for row, labels in enumerate(several)
        ]
    if columns[0] == "choice":  # counts from 0, as `bert predict` writes it; a label is spelled as the data spell it
        task = replace(task, file_labels=())
    known = _known(values, task, path)
    labels = [_label(value, known, task, rows, row) for row, value in enumerate(values)]
    records: list[Record] = [
        {"choice": task.labels.index(label)} if task.kind == "choose" else {"label": label} for label in labels
    ]
    if "score" not in rows.names:
        return records
    shares = _numbers(rows.column("score"), rows)
    return [{**record, "score": share} for record, share in zip(records, shares, strict=True)]


def _in_order(rows: Rows, strict: bool) -> Rows:
    """The rows in the order of their `index`, which the official files number them by, or of another number."""
    name = next((name for name in NUMBERS if name in rows.names), None)
    if name is None:
        return rows
    index = rows.column(name)
    if (name != "index" or not strict) and sorted(index) != sorted(map(str, range(len(rows)))):
        say(f"{rows.path}: its column `{name}` does not count from 0; the rows are taken as they stand")
        return rows
    strange = next((row for row, number in enumerate(index) if not number.isdecimal()), None)
    if strange is not None:
        raise UserError(f"{rows.place(strange)} has the index `{index[strange]}`.", "Number the examples from 0.")
    order = sorted(range(len(rows)), key=lambda row: int(index[row]))
    for number, row in enumerate(order):
        if int(index[row]) != number:
            what = f"again, and {number} nowhere" if int(index[row]) < number else f"where {number} is next"
            raise UserError(f"{rows.place(row)} has the index {index[row]} {what}.", "Give one prediction an example.")
    if order != sorted(order):
        say(f"{rows.path}: its rows are taken in the order of `{name}`")
    return replace(rows, cells=[rows.cells[row] for row in order], numbers=[rows.numbers[row] for row in order])


def _scores(rows: Rows, row: int, task: Task) -> Record:
    """The probabilities of all labels: an object, or a column a label, as `bert predict` writes them."""
    cells = rows.cells[row]
    given = cells.get("scores") or {name: cells.get(f"score {name}") for name in task.labels}
    if not isinstance(given, dict) or any(given.get(name) is None for name in task.labels):
        return {}
    shares = _numbers((given[name] for name in task.labels), rows, row)
    return {"scores": dict(zip(task.labels, shares, strict=True))}


def _numbers(values: Iterable[Any], rows: Rows, row: int | None = None) -> list[float]:
    """The values of all rows, or of one, as numbers."""
    numbers = []
    for place, value in enumerate(values):
        try:
            numbers.append(_finite(value))
        except (TypeError, ValueError):
            where = rows.place(place if row is None else row)
            raise UserError(f"{where} has `{value}`, which is no number.", "Give a number a row.") from None
    return numbers


def _known(names: Iterable[str], task: Task, path: Path) -> dict[str, str]:
    """The labels of the task by the ways in which files may spell them: its own, and those that differ in case."""
    known = task.spellings
    return known | {name: known[label] for name, label in in_other_case(names, known, path).items()}


def in_other_case(names: Iterable[str], labels: Collection[str], origin: object) -> dict[str, str]:
    """The labels that names are of but for their case, which is said; none where case tells two names or labels apart."""
    given, lower = {*names}, {label.lower(): label for label in labels}
    found = {name: lower[name.lower()] for name in sorted(given - {*labels}) if name.lower() in lower}
    if not found or any(len({name.lower() for name in each}) < len(each) for each in (given, {*labels})):
        return {}
    shown = ", ".join(f"`{name}` for `{label}`" for name, label in found.items())
    say(f"{origin}: labels are taken in spite of their case: {shown}")
    return found


def _label(name: str, known: dict[str, str], task: Task, rows: Rows, row: int) -> str:
    """A label as the task has it."""
    if name not in known:
        raise UserError(
            f"{rows.place(row)} has the label `{name}`, which {task.name} has not.",
            f"Its labels: {', '.join(task.labels[:20])}.",
        )
    return known[name]


READ_PREDICTIONS = {"tag": _tag_predictions, "span": _span_predictions}
