"""A task made from the user's own file: columns, labels and kind inferred, and said."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from bertcli.config import Kind
from bertcli.data.task_files import read_rows
from bertcli.errors import UserError, unknown
from bertcli.tasks import is_task
from bertcli.tasks.task import Files, Task

logger = logging.getLogger("bertcli")
FILE_ENDINGS = (".csv", ".tsv", ".jsonl", ".json", ".parquet", ".gz", ".xz", ".zst")
LABEL_NAMES = ("label", "labels", "category", "class", "target", "sentiment", "intent", "score", "stars", "rating", "y")
TEXT_NAMES = ("text", "sentence", "sentence1", "review", "comment", "content", "question", "premise", "title", "body")
PAIR_NAMES = ("text_pair", "sentence2", "hypothesis", "answer")
MANY_VALUES = 20  # numbers with more distinct values than this, or with fractions, are measured, not sorted


def looks_like_file(name: str) -> bool:
    """Whether a name is of a file rather than of a task."""
    return name.endswith(FILE_ENDINGS) or (Path(name).exists() and not is_task(name))


def task_of_file(name: str, columns: dict[str, str | None], kind: Kind | None) -> Task:
    """Make a task from a file; `columns` holds what the user said of text, text_pair and label.

    Raises:
        UserError: if a column is not there, or cannot be guessed.
    """
    names, rows = read_rows(Path(name))
    found = _columns(name, names, rows, columns)
    labels = [str(row.get(found["label"])) for row in rows if row.get(found["label"]) not in (None, "")]
    missing = len(rows) - len(labels)
    if missing:
        logger.info("%s: %d of %s rows have no label and are left out", name, missing, f"{len(rows):,}")
    kind = kind or _kind(labels)
    distinct = tuple(sorted(set(labels), key=_natural)) if kind == "classify" else ()
    if kind == "classify" and len(distinct) < 2:
        raise UserError(
            f"`{name}` has only the label `{distinct[0] if distinct else ''}`.",
            "Give the column with --label, or add examples.",
        )
    shown = ", ".join(f"{key} = `{value}`" for key, value in found.items())
    what = f"{len(distinct)} labels" if kind == "classify" else "a number"
    logger.info("%s: %s rows; %s; to predict: %s", name, f"{len(rows):,}", shown, what)
    return Task(
        name, kind, Files({"train": name}, dict(found)), ("", None),
        ("accuracy", "macro_f1") if kind == "classify" else ("spearmanr", "pearson"), distinct,
    )  # fmt: skip


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
    """Numbers with fractions or many values are a regression; all else are labels."""
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
