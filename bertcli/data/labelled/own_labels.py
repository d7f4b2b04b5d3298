"""What the labels of own data say: how each is spelled, which are missing, their kind and their order."""

import re
from collections.abc import Callable
from dataclasses import replace

from bertcli import say
from bertcli.data.labelled.official_files import NO_LABEL
from bertcli.data.labelled.tables import are_numbers
from bertcli.data.packing.text_features import split_labels
from bertcli.errors import UserError
from bertcli.tasks.task import Task

CLASS_NAMES = ("label", "labels", "gold_label", "category", "class", "intent")  # whole numbers in them are names
SEPARATORS = ("|", ";", ",")  # between several labels: the first that occurs in the column
LIST = re.compile(r"""\[\s*(['"].*)?\]""", re.DOTALL)  # of labels, and not a name in brackets
MANY_VALUES = 20  # numbers with more distinct values than this, or with fractions, are measured, not sorted
NO_NUMBER = {"nan", "na", "n/a", "null", "none"}  # how a missing number may be spelled


def spelled(label: str) -> str:
    """The label 1.0, which a missing one makes of a whole number, is 1, and Python's True is the true of JSON."""
    label = re.sub(r"^(-?\d+)\.0+$", r"\1", label.strip())
    return label.lower() if label in ("True", "False", "TRUE", "FALSE") else label


def missing_labels(labels: list[str], kind: str | None) -> set[str]:
    """How labels that are missing are spelled: of numbers NaN and the like, of inferences as SNLI does."""
    others = [label for label in labels if label.lower() not in NO_NUMBER]
    if kind == "regress" or (others and sum(are_numbers([label]) for label in others) >= 0.9 * len(others)):
        return NO_NUMBER
    return {NO_LABEL} if {"entailment", "contradiction"} <= set(labels) else set()


def kind_of_labels(labels: list[str], column: str) -> tuple[str, str]:
    """The kind that labels are of, and for numbers why: those with fractions, or of many values, are measured."""
    alone = sum(not label.startswith("[") for label in labels)
    if labels and (not alone or any(map(LIST.fullmatch, labels))):
        mixed = f", {len(labels) - alone:,} lists and {alone:,} labels alone (--kind classify takes them for names)"
        return "multilabel", mixed if alone else ""
    if not are_numbers(labels):
        return "classify", _no_number(labels)
    values = {float(label) for label in labels}
    why = f"{len(values)} different numbers, "
    if any(value != int(value) for value in values):
        return "regress", f", as they are {why}some with fractions (--kind classify takes them for names)"
    if len(values) > MANY_VALUES and column.lower() not in CLASS_NAMES:
        return "regress", f", as they are {why}more than {MANY_VALUES} (--kind classify takes them for names)"
    return "classify", ", as they are whole numbers (--kind regress measures them)"


def _no_number(labels: list[str]) -> str:
    """Why labels are names, where most are numbers, or would be with a point for their comma."""
    if any("," in label for label in labels) and are_numbers(label.replace(",", ".") for label in labels):
        return ", as numbers have a point, not a comma, before their fractions"
    others = [label for label in labels if not are_numbers([label])]
    if len(others) >= len(labels) / 2:
        return ""
    return f", as `{others[0]}` is no number, which {len(labels) - len(others):,} others are (--kind regress measures them)"


def _with_distinct(task: Task, labels: list[str]) -> Task:
    """Labels in an order that does not depend on that of the rows: numbers by their value, then names."""
    return replace(task, labels=tuple(sorted(set(labels), key=_natural)))


def _with_several(task: Task, labels: list[str]) -> Task:
    """Labels of examples that may have several: as lists, or with a separator."""
    separator = next((mark for mark in SEPARATORS if any(mark in cell for cell in labels if cell[0] != "[")), "")
    if separator:
        say(f"{task.name}: `{separator}` stands between several labels")
    several = [label for cell in labels for label in split_labels(cell, separator)]
    if set(several) <= {"0", "1"} and all(cell[0] == "[" for cell in labels):
        what = f"`{task.name}` has lists of 0 and 1 for labels, and not which labels they are."
        raise UserError(what, 'Write those that fit: ["toxic", "insult"]; or a column a label: --label toxic,insult')
    return replace(_with_distinct(task, several), files=replace(task.files, label_separator=separator))


def _with_choices(task: Task, labels: list[str]) -> Task:
    """Right choices by number, from 0 or from 1, or by letter."""
    count = sum(key.removeprefix("choice").isdigit() for key in task.files.columns)
    numbers = tuple(str(number) for number in range(count + 1))
    letters = tuple("ABCDEFGH"[:count])
    for names in (numbers[:-1], numbers[1:], letters, tuple(letter.lower() for letter in letters)):
        if set(labels) <= set(names):
            say(f"{task.name}: the choices count from {names[0]}")
            return replace(task, labels=numbers[:-1], file_labels=names)
    strange = next(label for label in labels if label not in numbers[:-1])
    raise UserError(
        f"`{task.name}` has the label `{strange}`, which is none of {count} choices.",
        f"Number them from 0 to {count - 1}, or give the column with --label.",
    )


WITH_LABELS: dict[str, Callable[[Task, list[str]], Task]] = {
    "classify": _with_distinct,
    "regress": lambda task, labels: task,
    "multilabel": _with_several,
    "choose": _with_choices,
}


def _natural(label: str) -> tuple[int, float, str]:
    return (0, float(label), label) if are_numbers([label]) else (1, 0.0, label)
