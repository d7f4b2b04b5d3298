"""Labels in the user's own files: how each is spelled, which are missing, which kind of task they are of."""

import ast
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple
from unicodedata import normalize

from bertcli import say
from bertcli.data.text.tables import are_numbers
from bertcli.errors import UserError
from bertcli.tasks.task import Task

CLASS_NAMES = ("label", "labels", "gold_label", "category", "class", "intent")  # whole numbers in them are names
SEPARATORS = ("|", ";", ",")  # between several labels: the first that occurs in the column
LIST = re.compile(r"""\[\s*(['"].*)?\]""", re.DOTALL)  # of labels, and not a name in brackets
BETWEEN_QUOTES = re.compile(r"""(['"])\s+(['"])""")  # in the lists that NumPy writes: ['one' 'two']
MARKS = r"(?<=\d)[,' ](?=\d{3}\b)|[^\w.,+-]"  # separators of thousands and signs of currencies
THOUSANDS = re.compile(r"-?[1-9]\d{0,2}\.\d{3}")  # 2.754, which is 2754 in German
FEW_OTHERS = 0.1  # with a smaller share of labels that are not numbers, a column of many numbers is not taken for names
MANY_VALUES = 20  # numbers with more distinct values than this, or with fractions, are values, not names
NO_NUMBER = {"nan", "na", "n/a", "null", "none"}  # how a missing number may be spelled
ZERO_OR_ONE = {"0", "1", "false", "true", ""}  # in the columns of several labels
NO_LABEL = "-"  # SNLI's and MNLI's mark of an example without a gold label


def spelled(label: str) -> str:
    """The label 1.0, which a missing one makes of a whole number, is 1, and Python's True is the true of JSON."""
    label = re.sub(r"^(-?\d+)\.0+$", r"\1", label.strip())
    return label.lower() if label in ("True", "False", "TRUE", "FALSE") else label


class Unit(NamedTuple):
    """The mean and the standard deviation of values that are learnt as numbers around 0."""

    mean: float
    deviation: float

    def around_zero(self, values: Any) -> Any:
        """The values as they are learnt."""
        return (values - self.mean) / self.deviation


def missing_labels(labels: list[str]) -> set[str]:
    """The spellings of a missing label: NaN and the like if most are numbers, `-` beside those of inference."""
    others = [label for label in labels if label.lower() not in NO_NUMBER]
    if others and sum(are_numbers([label]) for label in others) >= 0.9 * len(others):
        return NO_NUMBER
    return {NO_LABEL} if {"entailment", "contradiction"} <= set(labels) else set()


def infer_kind(labels: list[str], column: str) -> tuple[str, str]:
    """The kind of task that labels are of, and for numbers why."""
    alone = sum(not label.startswith("[") for label in labels)
    if labels and (not alone or any(map(LIST.fullmatch, labels))):
        mixed = f", {len(labels) - alone:,} lists and {alone:,} labels alone (--kind classify: they are classes)"
        return "multilabel", mixed if alone else ""
    if not are_numbers(labels):
        return "classify", _why_names(labels)
    _check_thousands(labels)
    values = {float(label) for label in labels}
    why = f", as they are {len(values)} different numbers, "
    has_fractions = values != {*map(math.floor, values)}
    if len(values) > 1 and has_fractions:
        return "regress", f"{why}some with fractions (--kind classify: they are classes)"
    if len(values) > MANY_VALUES and column.lower() not in CLASS_NAMES:
        return "regress", f"{why}more than {MANY_VALUES} (--kind classify: they are classes)"
    what = ("whole numbers", "one number")[has_fractions]
    return "classify", f", as they are {what} (--kind regress: they are values)"


def _check_thousands(labels: list[str]) -> None:
    """Raise UserError if a point may stand between thousands: all fractions have three digits, whole numbers at most three."""
    pointed, whole = ([label for label in labels if ("." in label) == has_point] for has_point in (True, False))
    longest = max(whole, key=len, default="")
    if pointed and len(longest) == 3 and all(map(THOUSANDS.fullmatch, pointed)):
        hint = f"Write {pointed[0].replace('.', '')}; or, if the point is a decimal one, give: --kind regress"
        raise UserError(f"Labels such as `{pointed[0]}` beside `{longest}` may have a point between thousands.", hint)


def _why_names(labels: list[str]) -> str:
    """Why labels are names, if most are numbers, or would be with a decimal point."""
    if are_numbers(re.sub(MARKS, "", label) for label in labels):
        longest = max(labels, key=len)
        return f", as `{longest}` is no number here, and `{re.sub(MARKS, '', longest)}` is"
    if any("," in label for label in labels) and are_numbers(label.replace(",", ".") for label in labels):
        if len(set(labels)) > MANY_VALUES:
            what = f"Labels are numbers with a comma, such as `{max(labels, key=len)}`, and would be taken for names."
            raise UserError(what, "Write them with a decimal point; or, if they are names, give: --kind classify")
        return ", as the decimal separator must be a point, not a comma"
    if several := _several(labels):
        return f", each taken whole, such as `{several}` (--kind multilabel: several labels in a row)"
    return _why_not_values(labels)


def _why_not_values(labels: list[str]) -> str:
    """Why labels are names, if most are numbers. Raises UserError if nearly all are, with many values."""
    others = [label for label in labels if not are_numbers([label])]
    if len(others) >= len(labels) / 2:
        return ""
    if len(others) < FEW_OTHERS * len(labels) and len({*labels} - {*others}) > MANY_VALUES:
        what = f"{len(others):,} of {len(labels):,} labels are not numbers, such as `{others[0]}`."
        hint = "Leave such cells empty, and their rows are left out; or, if all labels are names, give: --kind classify"
        raise UserError(what, hint)
    numbers = len(labels) - len(others)
    return (
        f", because `{others[0]}` is not a number; {numbers:,} others are (if they are values, leave such cells empty)"
    )


def one_spelling(labels: Iterable[str], origin: str) -> list[str]:
    """The labels as `spelled` writes them; says which become one, unless all are numbers."""
    given = [label.strip() for label in labels]
    found = {label: spelled(label) for label in {*given}}
    alike = [label for label, each in found.items() if each != label and each in found]
    if alike and not are_numbers(found.keys() - {""}):
        say(f"{origin}: `{min(alike)}` and `{found[min(alike)]}` are taken as one label, `{found[min(alike)]}`")
    return [found[label] for label in given]


def _several(labels: list[str]) -> str:
    """The first name that looks like several labels, some of which are labels of other rows; nothing if there is none."""
    for separator in SEPARATORS:
        found = [label for label in labels if separator in label]
        parts = {part for each in found for part in split_labels(each, separator)}
        if parts & set(labels) and (separator != "," or parts <= set(labels)):  # a comma is part of many names
            return found[0]
    return ""


def split_labels(cell: str, separator: str, place: str = "A row") -> list[str]:
    """Any number of labels, from a list in JSON or Python, or with separators. Raises UserError if a list is invalid."""
    if not cell.startswith("["):
        return [part.strip() for part in (cell.split(separator) if separator else [cell]) if part.strip()]
    try:
        labels = ast.literal_eval(BETWEEN_QUOTES.sub(r"\1, \2", cell))
        if any(isinstance(label, list | dict) for label in labels):
            raise ValueError
        return [str(label) for label in labels if label is not None]
    except (ValueError, SyntaxError, TypeError, RecursionError):
        what = f"{place} has the labels `{cell[:80]}`, which is not a valid list."
        hint = 'Write them like this: ["one", "two"]; or, for names with brackets, give: --kind classify'
        raise UserError(what, hint) from None


def is_list(cell: str) -> bool:
    """Whether a cell is a list of labels in JSON or Python."""
    with suppress(UserError):
        return cell.startswith("[") and split_labels(cell, "") is not None
    return False


def with_distinct(task: Task, labels: Collection[str]) -> Task:
    """The task with its labels in an order that does not depend on that of the rows: numbers by value, then names."""
    folded = {label: normalize("NFC", label).casefold() for label in labels}
    counts = Counter(folded.values())
    if alike := [label for label, each in folded.items() if counts[each] > 1]:
        form = ", or in Unicode's form," * (len({normalize("NFC", label) for label in alike}) < len(alike))
        say(f"{task.name}: labels that differ only in upper and lower case{form} are different labels{listed(alike)}")
    ordered = sorted(set(labels), key=lambda label: (float(label) if are_numbers([label]) else math.inf, label))
    return replace(task, labels=tuple(ordered))


def listed(names: Iterable[str], most: int = 5) -> str:
    """The first of the names after a colon, and how many more there are; nothing for none."""
    shown = [" ".join(name.splitlines()) for name in names]
    more = f" and {len(shown) - most} more" if len(shown) > most else ""
    return f": {', '.join(shown[:most])}{more}" if shown else ""


def counted(labels: Mapping[str, int]) -> str:
    """The first of the labels after a colon, each with its number of examples."""
    return listed(f"`{label}` ({count:,})" for label, count in labels.items())
