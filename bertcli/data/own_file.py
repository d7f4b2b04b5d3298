"""A task made from the user's own file: columns, labels and kind inferred, and said."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from bertcli.config import Kind
from bertcli.data.tables import read_rows
from bertcli.data.text_features import split_labels
from bertcli.errors import UserError, unknown
from bertcli.tasks import is_task
from bertcli.tasks.task import Files, Task

logger = logging.getLogger("bertcli")
FILE_ENDINGS = (".csv", ".tsv", ".jsonl", ".json", ".parquet", ".gz", ".xz", ".zst")
LABEL_NAMES = ("label", "labels", "category", "class", "target", "sentiment", "intent", "score", "stars", "rating", "y")
TEXT_NAMES = ("text", "sentence", "sentence1", "review", "comment", "content", "question", "premise", "title", "body")
PAIR_NAMES = ("text_pair", "sentence2", "hypothesis", "answer")
CONTEXT_NAMES = ("sent1", "context", "prompt", "startphrase", *TEXT_NAMES)  # what choices may follow
CHOICE_NAME = re.compile(r"(ending|choice|option)[ _]?(\d+|[a-h])", re.IGNORECASE)
SEPARATORS = ("|", ";", ",")  # between several labels: the first that occurs in the column
METRICS = {
    "classify": ("accuracy", "macro_f1"), "regress": ("spearmanr", "pearson"), "choose": ("accuracy",),
    "multilabel": ("micro_f1", "macro_f1", "subset_accuracy"), "tag": ("f1", "precision", "recall"),
}  # fmt: skip
MANY_VALUES = 20  # numbers with more distinct values than this, or with fractions, are measured, not sorted


def looks_like_file(name: str) -> bool:
    """Whether a name is of a file rather than of a task."""
    return name.endswith(FILE_ENDINGS) or (Path(name).exists() and not is_task(name))


def task_of_file(name: str, columns: dict[str, str | None], kind: Kind | None) -> Task:
    """Make a task from a file; `columns` holds what the user said of text, text_pair and label.

    Raises:
        UserError: if a column is not there, or cannot be guessed.
    """
    table = read_rows(Path(name))
    names, rows = table.names, table.cells
    choices = choice_columns(names, columns.get("text")) if kind in (None, "choose") else {}
    if kind == "choose" and not choices:
        raise UserError(
            f"`{name}` has no columns choice_0, choice_1 ... after a text.", f"Its columns: {', '.join(names)}."
        )
    if choices:
        kind, columns = "choose", {**columns, "text": choices["text"]}
        names = [column for column in names if not CHOICE_NAME.fullmatch(column)]
    found = choices | _columns(name, names, rows, columns)
    labels = [str(row.get(found["label"])) for row in rows if row.get(found["label"]) not in (None, "")]
    kind = kind or _kind(labels)
    missing = len(rows) - len(labels)
    if missing:
        what = "no label" if kind == "multilabel" else "no label and are left out"
        logger.info("%s: %d of %s rows have %s", name, missing, f"{len(rows):,}", what)
    task = _WITH_LABELS[kind](Task(name, kind, Files({"train": name}, dict(found)), ("", None), METRICS[kind]), labels)
    shown = ", ".join(f"{key} = `{value}`" for key, value in found.items())
    what = {"regress": "a number", "choose": f"one of {len(task.labels)} choices"}.get(
        kind, f"{len(task.labels)} labels"
    )
    logger.info("%s: %s rows; %s; to predict: %s", name, f"{len(rows):,}", shown, what)
    return task


def choice_columns(names: list[str], text: str | None = None) -> dict[str, str]:
    """The columns of a text and its choices, such as `ending0` or `choice_a`; none where there are not two of them.

    In SWAG's own form, `sent2` begins each choice.
    """
    choices = [name for name in names if CHOICE_NAME.fullmatch(name)]
    text = text or _named(CONTEXT_NAMES, names)
    if len(choices) < 2 or text is None:
        return {}
    start = {"choice_start": "sent2"} if text == "sent1" and "sent2" in names else {}
    return {"text": text, **start, **{f"choice{number}": name for number, name in enumerate(choices)}}


def _with_distinct(task: Task, labels: list[str]) -> Task:
    distinct = tuple(sorted(set(labels), key=_natural))
    if len(distinct) < 2:
        raise UserError(
            f"`{task.name}` has only the label `{distinct[0] if distinct else ''}`.",
            "Give the column with --label, or add examples.",
        )
    return replace(task, labels=distinct)


def _with_several(task: Task, labels: list[str]) -> Task:
    """Labels of examples that may have several: as lists, or with a separator."""
    separator = next((mark for mark in SEPARATORS if any(mark in cell for cell in labels if cell[0] != "[")), "")
    if separator:
        logger.info("%s: `%s` stands between several labels", task.name, separator)
    several = [label for cell in labels for label in split_labels(cell, separator)]
    return replace(_with_distinct(task, several), files=replace(task.files, label_separator=separator))


def _with_choices(task: Task, labels: list[str]) -> Task:
    """Right choices by number, from 0 or from 1, or by letter."""
    count = sum(key.removeprefix("choice").isdigit() for key in task.files.columns)
    numbers = tuple(str(number) for number in range(count + 1))
    letters = tuple("ABCDEFGH"[:count])
    for spelled in (numbers[:-1], numbers[1:], letters, tuple(letter.lower() for letter in letters)):
        if set(labels) <= set(spelled):
            logger.info("%s: the choices count from %s", task.name, spelled[0])
            return replace(task, labels=numbers[:-1], file_labels=spelled)
    strange = next(label for label in labels if label not in numbers)
    raise UserError(
        f"`{task.name}` has the label `{strange}`, which is none of {count} choices.",
        f"Number them from 0 to {count - 1}, or give the column with --label.",
    )


_WITH_LABELS: dict[str, Callable[[Task, list[str]], Task]] = {
    "classify": _with_distinct,
    "regress": lambda task, labels: task,
    "multilabel": _with_several,
    "choose": _with_choices,
}


def _columns(name: str, names: list[str], rows: list[dict[str, Any]], given: dict[str, str | None]) -> dict[str, str]:
    for column in given.values():
        if column is not None and column not in names:
            raise unknown(f"column of {name}:", column, names)
    label = given.get("label") or _named(LABEL_NAMES, names)
    text = given.get("text") or _named(TEXT_NAMES, [n for n in names if n != label])
    pair = given.get("text_pair") or (
        None if given.get("text") else _named(PAIR_NAMES, [n for n in names if n not in (label, text)])
    )
    rest = [n for n in names if n not in (label, text, pair)]
    if text is None and rest:
        text = max(rest, key=lambda column: sum(len(str(row.get(column, ""))) for row in rows[:200]))
        rest.remove(text)
    if label is None and len(rest) == 1:
        label = rest[0]
    if text is None or label is None:
        raise UserError(
            f"The columns of `{name}` are {', '.join(names)}: which is the text and which the label?",
            "Say so: --text COLUMN --label COLUMN",
        )
    return {"text": text, **({"text_pair": pair} if pair else {}), "label": label}


def _named(wanted: tuple[str, ...], names: list[str]) -> str | None:
    lower = {name.lower(): name for name in names}
    return next((lower[name] for name in wanted if name in lower), None)


def _kind(labels: list[str]) -> Kind:
    """Lists are several labels; numbers with fractions or many values are a regression; all else are labels."""
    if labels and all(label.startswith("[") for label in labels):
        return "multilabel"
    try:
        values = {float(label) for label in labels}
    except ValueError:
        return "classify"
    fractions = any(value != int(value) for value in values if value == value and abs(value) < 1e15)
    return "regress" if fractions or len(values) > MANY_VALUES else "classify"


def _natural(label: str) -> tuple[int, float, str]:
    try:
        return 0, float(label), label
    except ValueError:
        return 1, 0.0, label
