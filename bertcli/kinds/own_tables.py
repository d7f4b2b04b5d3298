"""Tables of texts and labels in the user's own files: columns and kind inferred, and said."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, cast

from bertcli import say
from bertcli.data.labelled.examples import TextExamples, text_examples
from bertcli.data.labelled.own_labels import CLASS_NAMES, infer_kind, missing_labels, spelled
from bertcli.data.labelled.own_splits import sizes_of
from bertcli.data.labelled.tables import NumberedRow, Table, TableStream, are_numbers, place_of, read_table
from bertcli.errors import UserError, unknown
from bertcli.kinds.choice import CHOICE
from bertcli.kinds.text import TextKind
from bertcli.kinds.types import OwnData
from bertcli.tasks.task import Files, Task

LABEL_NAMES = (*CLASS_NAMES, "target", "sentiment", "score", "stars", "rating", "y")
SENTENCE_NAMES = ("text", "sentence1", "premise", "question1", "question", "sentence")
TEXT_NAMES = (*SENTENCE_NAMES, "review", "comment", "content", "title", "body")
PAIR_NAMES = ("text_pair", "sentence2", "hypothesis", "question2", "answer", "sentence")
CONTEXT_NAMES = ("sent1", "context", "ctx", "prompt", "startphrase", *TEXT_NAMES)  # what choices may follow
CHOICE_LISTS = ("choices", "endings", "options")
CHOICE_NAME = re.compile(r"(ending|choice|option)[ _]?(\d+|[a-h])", re.IGNORECASE)
MOST_SPACES = 3  # in the name of a column
YES_OR_NO = {"1": True, "1.0": True, "true": True, "0": False, "0.0": False, "false": False, "": False}


def read_tables(
    name: str, files: dict[str, list[Path]], given: dict[str, str | None], kind: TextKind | None
) -> OwnData:
    """Make a task of tables, and the examples of each split; a test file may be without labels.

    Raises UserError naming the file and the line, or the column, that is wrong.
    """
    from bertcli.kinds import KINDS

    tables = {split: [read_table(path) for path in paths] for split, paths in files.items()}
    if label := given.get("label"):
        tables = {split: [_joined(table, label) for table in read] for split, read in tables.items()}
    first, *_ = next(iter(tables.values()))
    if kind in (None, CHOICE) and len(first.names) > 2:  # a text, its choices and a label
        tables = {split: [_spread(first, table) for table in read] for split, read in tables.items()}
        first, *_ = next(iter(tables.values()))
    kind, columns = _columns(first, given, kind)
    parts = {split: _texts(split, read, columns) for split, read in tables.items()}
    missing = kind.missing_labels(_labels(parts)) if kind else missing_labels(_labels(parts))
    for split, part in parts.items():
        labels = part.labels and ["" if label.lower() in missing else label for label in part.labels]
        parts[split] = replace(part, labels=labels)
    if spelled(columns["label"]) in _labels(parts) and " " in columns["text"]:
        what = f"`{first.path}` line 1 looks like an example, not like the names of columns."
        raise UserError(what, "Add a header line: text,label")
    why = ""
    if kind is None:
        inferred, why = infer_kind(_labels(parts), columns["label"])
        kind = cast(TextKind, KINDS[inferred])
    sizes = sizes_of(parts)
    parts = {split: _complete(part, kind) for split, part in parts.items()}
    task = kind.learn_labels(Task(name, kind.name, Files({}, dict(columns)), ("", None), kind.metrics), _labels(parts))
    shown = ", ".join(f"{key} = `{column}`" for key, column in columns.items())
    say(f"{name}: {sizes} rows; {shown}; kind: {kind.name}{kind.described(task)}{why}")
    if are_numbers(next(iter(parts.values())).texts):
        say(f"{name}: every `{columns['text']}` is a number; if it is not the text, give --text COLUMN")
    return task, dict(parts)


def _labels(parts: dict[str, TextExamples]) -> list[str]:
    return [label for part in parts.values() for label in part.labels or () if label]


def _joined(rows: Table, label: str) -> Table:
    """The table with a column of lists in place of several of 0 and 1: `--label toxic,insult`."""
    columns = [name.strip() for name in label.split(",")]
    if label in rows.names or not set(columns) & set(rows.names):
        return rows
    marks = [[YES_OR_NO.get(cell.strip().lower()) for cell in rows.column(name)] for name in columns]
    if missing := sum(not cell.strip() for name in columns for cell in rows.column(name)):
        say(f"{rows.path}: {missing:,} empty cells in {label} count as 0")
    cells = []
    for row, own in enumerate(zip(*marks, strict=True)):
        if None in own:
            name = columns[own.index(None)]
            what = f"{rows.place(row)} has `{rows.cells[row].get(name)}` in the column `{name}`."
            raise UserError(what, "Mark a label with 1, others with 0.")
        cells.append(rows.cells[row] | {label: [name for name, mark in zip(columns, own, strict=True) if mark]})
    return replace(rows, names=[*(name for name in rows.names if name not in columns), label], cells=cells)


def _spread(first: Table, table: Table) -> Table:
    rows = zip(table.numbers, table.cells, strict=True)
    names, spread = spread_choices(table.path, table.names, rows, first.cells[0])
    return replace(table, names=names, cells=[cells for _, cells in spread])


def spread_choices(path: Path, names: list[str], rows: Iterable[NumberedRow], first: Mapping[str, Any]) -> TableStream:
    """The columns choice0, choice1 ... in place of one that lists choices, if the first row of all has one.

    Raises UserError where a row has another number of them.
    """
    column = named(CHOICE_LISTS, names)
    if column is None or not isinstance(first.get(column), list):
        return names, iter(rows)
    choices = [f"choice{number}" for number in range(len(first[column]))]

    def spread() -> Iterator[NumberedRow]:
        for number, cells in rows:
            cell = cells.get(column)
            if not isinstance(cell, list) or len(cell) != len(choices):
                found = f"{len(cell)} choices" if isinstance(cell, list) else "no list of choices"
                what = f"{place_of(path, number)} has {found}, the first row {len(choices)}."
                raise UserError(what, "Give every row as many choices.")
            yield number, cells | dict(zip(choices, cell, strict=True))

    return [*(name for name in names if name != column), *choices], spread()


def _texts(split: str, tables: list[Table], found: dict[str, str]) -> TextExamples:
    """The rows of a split, each label in one spelling; a test file may be without labels, or have -1 for all."""
    if split == "test" and not any(found["label"] in rows.names for rows in tables):
        found = {key: name for key, name in found.items() if key != "label"}
    for rows in tables:
        for number, cells in enumerate(rows.cells):
            if any(isinstance(cells.get(name), list | dict) for key, name in found.items() if key != "label"):
                raise UserError(f"{rows.place(number)} has a list where a text should be.", "Give one text a column.")
            if isinstance(cells.get(found.get("label", "")), dict):
                what = f"{rows.place(number)} has an object where a label should be."
                raise UserError(what, 'Give its name: {"label": "good"}')
    read = {key: [cell for rows in tables for cell in rows.column(name)] for key, name in found.items()}
    labels = [spelled(label) for label in read.get("label", ())]
    examples = text_examples(read, ", ".join(str(rows.path) for rows in tables))
    unlabelled = split == "test" and set(labels) <= {"", "-1"}
    if unlabelled:
        say(f"{examples.origin}: without labels")
    places = [rows.place(row) for rows in tables for row in range(len(rows))]
    return replace(examples, labels=None if unlabelled else labels, places=places)


def _complete(part: TextExamples, kind: TextKind) -> TextExamples:
    """The examples that have a text and a label; the others are counted and left out."""
    lacking = {
        "text": [row for row, text in enumerate(part.texts) if not text.strip()],
        "label": [row for row, label in enumerate(part.labels or ()) if kind.lacks_label(label)],
    }
    kind.check_labels(part)
    for what, rows in lacking.items():
        if rows:
            left_out = f"{len(rows):,} of {len(part):,} rows have no {what} and are left out"
            say(f"{part.origin}: {left_out}; the first is {part.place(rows[0])}")
    if alone := sum(not pair.strip() for pair in part.pairs or ()):
        say(f"{part.origin}: {alone:,} of {len(part):,} rows have no second text")
    if gaps := sum(not all(choice.strip() for choice in choices) for choices in part.choices or ()):
        say(f"{part.origin}: {gaps:,} of {len(part):,} rows have an empty choice")
    out = set(chain.from_iterable(lacking.values()))
    kept = [row for row in range(len(part)) if row not in out]
    if not kept:
        what = f"`{part.origin}` holds no row with a text and a label."
        raise UserError(what, "Give the columns: --text COLUMN --label COLUMN")
    return part.take(kept)


def choice_columns(names: list[str], text: str | None = None) -> dict[str, str]:
    """The columns of a text and its choices, such as `ending0` or `choice_a`; none where there are not two of them.

    In SWAG's own form, `sent2` begins each choice.
    """
    choices = [name for name in names if CHOICE_NAME.fullmatch(name)]
    text = text or named(CONTEXT_NAMES, names)
    if len(choices) < 2 or text is None:
        return {}
    start = {"choice_start": "sent2"} if text == "sent1" and "sent2" in names else {}
    return {"text": text, **start, **{f"choice{number}": name for number, name in enumerate(choices)}}


def _columns(
    first: Table, given: dict[str, str | None], kind: TextKind | None
) -> tuple[TextKind | None, dict[str, str]]:
    """The kind, if the columns show it, and the column of each part of an example: as given, by its name, or left over."""
    names = first.names
    for column in given.values():
        if column is not None and column not in names:
            raise unknown(f"column of {first.path}:", column, names)
    choices = choice_columns(names, given.get("text")) if kind in (None, CHOICE) else {}
    shown = f"The columns of `{first.path}` are {', '.join(names)}"
    if kind is CHOICE and not choices:
        what = f"{shown}: none are choice_0, choice_1 ... after a text."
        raise UserError(what, "Rename them, or give the text: --text COLUMN")
    if choices:
        kind, given = CHOICE, {**given, "text": choices["text"]}
        names = [column for column in names if not CHOICE_NAME.fullmatch(column)]
    text, pair, label = _named_columns(first, names, given)
    if text is None or label is None:
        is_header = all(name.count(" ") < MOST_SPACES for name in first.names)
        hint = "Name them: --text COLUMN --label COLUMN" if is_header else "Add a header line: text,label"
        raise UserError(f"{shown}: which is the text and which the label?", hint)
    if len({text, pair, label}) < 3:
        what = f"{shown}: one of them is used twice."
        raise UserError(what, "Give each of --text, --text-pair and --label another.")
    return kind, choices | {"text": text, **({"text_pair": pair} if pair else {}), "label": label}


def _named_columns(table: Table, names: list[str], given: dict[str, str | None]) -> list[str | None]:
    """The columns of the text, the second text and the label."""
    text, pair, label = (given.get(key) for key in ("text", "text_pair", "label"))
    is_given = text is not None

    def left() -> list[str]:
        return [name for name in names if name not in (text, pair, label)]

    label = label or named(LABEL_NAMES, left())
    text = text or named(TEXT_NAMES, left())
    pair = pair if is_given else pair or named(PAIR_NAMES, left())
    if text is None and left():
        text = max(left(), key=lambda column: sum(map(len, table.column(column)[:200])))
    if label is None and len(left()) == 1:
        label = left()[0]
    return [text, pair, label]


def named(wanted: tuple[str, ...], names: list[str]) -> str | None:
    """The column with the first of the wanted names that one has."""
    lower = {name.lower(): name for name in names}
    return next((lower[name] for name in wanted if name in lower), None)
