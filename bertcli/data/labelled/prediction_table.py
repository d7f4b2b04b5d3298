"""Files of predictions that were made before: tables with a row an example, or values by question."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from operator import eq
from pathlib import Path
from typing import Any, Self, TypeVar

from bertcli import quietly, say
from bertcli.data.labelled.examples import TextExamples
from bertcli.data.labelled.own_labels import is_list, spelled
from bertcli.data.text.files import ending_of, read_text
from bertcli.data.text.tables import DELIMITERS, Table, as_text, read_table
from bertcli.errors import UserError, quoted
from bertcli.tasks.task import Task

Value = TypeVar("Value")
# In this order: beside one of the others, `label` is the right answer.
PREDICTION_COLUMNS = ("prediction", "pred", "choice", "value", "labels", "label")
NUMBERS = ("index", "idx", "id", "guid")  # columns that may say which example a prediction is of
ROW_ENDINGS = (*DELIMITERS, ".jsonl", ".parquet")


@dataclass(frozen=True)
class PredictionTable:
    """A table and its column of predictions."""

    table: Table
    column: str

    @classmethod
    def read(cls, path: Path, examples: TextExamples, is_own: bool) -> Self:
        """Read a table in the order of the examples, of own files or of an official task.

        Raises UserError if it has no column of predictions, or has their texts in another order.
        """
        table = _ours(read_table(path))
        columns = [name for name in PREDICTION_COLUMNS if name in table.names]
        if not columns:
            shown = f"Its columns: {', '.join(table.names[:20])}."
            raise UserError(f"`{path}` has no column `label`, `prediction` or `value`.", shown)
        if columns == ["label"] and path.resolve() == Path(examples.origin).resolve():
            hint = f"Predict first: bert predict --file {quoted(path)} --output predictions.csv"
            raise UserError(f"`{path}` has no predictions beside its labels.", hint)
        if len(columns) > 1:
            say(f"{path}: the column `{columns[0]}` is scored, not `{'`, `'.join(columns[1:])}`")
        found = _beside(table, examples) if is_own else _in_order(table, True)
        check_order(found, examples.texts, examples.pairs)
        return cls(found, columns[0])

    @property
    def values(self) -> list[str]:
        """The predictions as text."""
        return self.table.column(self.column)

    def labels(self, task: Task) -> list[str]:
        """The predictions as labels of the task. Raises UserError at the first that is not one."""
        known = self.spellings(task, self.values)
        return [self.label(value, known, task, row) for row, value in enumerate(self.values)]

    def spellings(self, task: Task, names: Iterable[str]) -> dict[str, str]:
        """The labels of the task by the spellings of a file, also in another case."""
        known = task.spellings
        return known | {name: known[label] for name, label in in_other_case(names, known, self.table.path).items()}

    def label(self, name: str, known: dict[str, str], task: Task, row: int) -> str:
        """A label as the task spells it. Raises UserError if the task does not have it."""
        name = name if name in known else spelled(name)
        if name not in known:
            what = f"{self.table.place(row)} has the label `{name}`, which is not a label of {task.name}."
            raise UserError(what, f"Its labels: {', '.join(task.labels[:20])}.")
        return known[name]

    def number(self, value: Any, row: int) -> float:
        """The value of a row as a number. Raises UserError if it is not one."""
        try:
            return finite(value)
        except (TypeError, ValueError):
            what = f"{self.table.place(row)} has `{value}`, which is no number."
            raise UserError(what, "Give a number a row.") from None

    def numbers(self, values: Iterable[Any]) -> list[float]:
        """The values of all rows as numbers. Raises UserError at the first that is not one."""
        return [self.number(value, row) for row, value in enumerate(values)]

    def with_score(self, predictions: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The predictions with their probabilities, where the table has them."""
        if "score" not in self.table.names:
            return predictions
        scores = self.numbers(self.table.column("score"))
        return [{**each, "score": score} for each, score in zip(predictions, scores, strict=True)]

    def scores(self, row: int, labels: tuple[str, ...]) -> dict[str, dict[str, float]]:
        """The probabilities of all labels: an object, or a column a label, as `bert predict` writes them."""
        cells = self.table.cells[row]
        given = cells.get("scores") or {name: cells.get(f"score_{name}", cells.get(f"score {name}")) for name in labels}
        if not isinstance(given, dict) or any(given.get(name) is None for name in labels):
            return {}
        return {"scores": {name: self.number(given[name], row) for name in labels}}


def has_lists_of_labels(path: Path) -> bool:
    """Whether a file of predictions has a column of lists of labels."""
    table = read_table(path) if ending_of(path) in ROW_ENDINGS else None
    name = next((name for name in ("prediction", "labels") if table and name in table.names), None)
    return bool(table and name and any(map(is_list, table.column(name))))


def read_by_question(path: Path, convert: Callable[[Any], Value], form: str, column: str) -> dict[str, Value]:
    """Read a JSON object of question ids and values, or rows of `id` and `column`. Raises UserError if it is neither."""
    try:
        if ending_of(path) in ROW_ENDINGS:
            table = read_table(path)
            if lacking := {"id", column} - {*table.names}:
                shown = f"It has {', '.join(table.names[:20])}; a row needs id and {column}."
                raise UserError(f"`{path}` has no column `{min(lacking)}`.", shown)
            pairs: Any = tuple(zip(table.column("id"), table.column(column), strict=True))
        else:
            pairs = json.loads(read_text(path), object_pairs_hook=tuple)
        if not isinstance(pairs, tuple):
            raise TypeError
        values = {key: convert(value) for key, value in pairs}
    except (ValueError, TypeError, RecursionError):
        what = f"`{path}` is not a JSON object of question ids and {form}s."
        raise UserError(what, f"Give the official form: {{id: {form}}}.") from None
    if len(values) < len(pairs):
        say(f"{path}: {len(pairs) - len(values)} questions occur twice; the last {form} counts")
    return values


def finite(value: Any) -> float:
    """A finite number. Raises ValueError or TypeError for anything else."""
    if not math.isfinite(float(value)):
        raise ValueError
    return float(value)


def check_order(table: Table, *columns: Sequence[Any] | None) -> None:
    """Raise UserError at the first row with the text, or the words, of another example."""
    inputs = [[*map(_as_compared, column)] for column in columns if column is not None]
    for name in table.names:
        given = [*map(_as_compared, table.column(name))]
        if name in (*PREDICTION_COLUMNS, *NUMBERS) or given in inputs:
            continue
        for wanted in inputs:
            if len(given) == len(wanted) and {*given} <= {*wanted}:
                row = list(map(eq, given, wanted)).index(False)
                what = f"{table.place(row)} has the `{name}` of another example."
                raise UserError(what, "Give the examples in their order, or a column `id` that both files have.")


def _as_compared(value: Any) -> str:
    return " ".join(as_text(value).split())


def _ours(table: Table) -> Table:
    """The table without the columns `prediction` and `score` of a file to which `bert predict` has added its own."""
    places = [place for place, name in enumerate(table.names) if re.fullmatch(r"prediction(_\d+)?", name)]
    if not places:
        return table
    if (added := table.names[places[-1] :])[0] != "prediction":
        say(f"{table.path}: the column `{added[0]}` is scored, which was added beside an older `prediction`")
    spelled = {added[0]: "prediction"}
    if "score" in table.names and re.fullmatch(r"score_\d+", "".join(added[1:2])):
        spelled[added[1]] = "score"
    older = {*spelled.values()} - {*spelled}
    cells = [{spelled.get(name, name): cell for name, cell in row.items() if name not in older} for row in table.cells]
    return replace(table, names=[spelled.get(name, name) for name in table.names if name not in older], cells=cells)


def _beside(table: Table, examples: TextExamples) -> Table:
    """The rows of the examples: by the numbers that the file of these has too, else by the place of each in it."""
    file = Path(examples.origin)  # of several files, none
    if examples.places is None or not file.is_file():
        return _in_order(table, False)
    with quietly():  # how it is read was said before
        gold = read_table(file)
    rows = _rows_at(examples.places, gold)
    named, known = ({name.lower(): name for name in each.names} for each in (table, gold))
    if shared := [name for name in NUMBERS if name in named and name in known]:
        wanted = gold.column(known[shared[0]])
        if found := _rows_of_numbers(table, named[shared[0]], [*map(wanted.__getitem__, rows)]):
            return _taken(table, found, f"rows are matched by `{shared[0]}`")
    table = table if shared else _in_order(table, False)
    return _taken(table, rows, f"its rows are those of `{file}`") if len(table) == len(gold) else table


def _rows_at(places: Iterable[str], table: Table) -> list[int]:
    row_of = {table.place(row): row for row in range(len(table))}
    return [row_of[place] for place in places]


def _rows_of_numbers(table: Table, column: str, wanted: list[str]) -> list[int]:
    """The row of each number that is wanted; no rows where these are none of the table's, or no names of rows.

    Raises UserError if one is missing or given twice.
    """
    rows = dict[str, list[int]]()
    for row, number in enumerate(table.column(column)):
        rows.setdefault(number, []).append(row)
    if len({*wanted}) < len(wanted) or rows.keys().isdisjoint(wanted):
        say(f"{table.path}: its column `{column}` does not tell which row is which; the rows are taken as they stand")
        return []
    if wrong := [number for number in wanted if len(rows.get(number, ())) != 1]:
        what = f"{len(rows.get(wrong[0], ())) or 'no'} predictions for the `{column}` {wrong[0]}"
        raise UserError(f"`{table.path}` has {what}.", "Give one prediction per example.")
    return [rows[number][0] for number in wanted]


def _taken(table: Table, rows: list[int], how: str) -> Table:
    """The chosen rows; says how they were chosen, if they are not all, as they stand."""
    if rows != list(range(len(table))):
        left_out = len(table) - len(rows)
        say(f"{table.path}: {how}" + f"; {left_out:,} have no example that is scored" * (left_out > 0))
    return replace(table, cells=[table.cells[row] for row in rows], numbers=[table.numbers[row] for row in rows])


def _in_order(table: Table, is_official: bool) -> Table:
    """The rows in the order of their `index`, which the official files number them by, or of another number."""
    name = next((name for name in NUMBERS if name in table.names), None)
    if name is None:
        return table
    index = table.column(name)
    if (name != "index" or not is_official) and sorted(index) != sorted(map(str, range(len(table)))):
        say(f"{table.path}: its column `{name}` does not count from 0; the rows are taken as they stand")
        return table
    return _taken(table, _order_of(table, index), f"rows are sorted by `{name}`")


def _order_of(table: Table, index: list[str]) -> list[int]:
    """The rows by their index. Raises UserError if it is not each number from 0, once."""
    for row, given in enumerate(index):
        if not given.isdecimal():
            raise UserError(f"{table.place(row)} has the index `{given}`.", "Number the examples from 0.")
    order = sorted(range(len(table)), key=lambda row: int(index[row]))
    for number, row in enumerate(order):
        if int(index[row]) != number:
            what = f"again, and {number} nowhere" if int(index[row]) < number else f"where {number} is next"
            hint = "Give one prediction per example."
            raise UserError(f"{table.place(row)} has the index {index[row]} {what}.", hint)
    return order


def in_other_case(names: Iterable[str], labels: Collection[str], origin: object) -> dict[str, str]:
    """The label of each name that differs only in case; none if two names or two labels differ only in case."""
    given, lower = {*names}, {label.lower(): label for label in labels}
    found = {name: lower[name.lower()] for name in sorted(given - {*labels}) if name.lower() in lower}
    if not found or any(len({name.lower() for name in each}) < len(each) for each in (given, {*labels})):
        return {}
    shown = ", ".join(f"`{name}` for `{label}`" for name, label in found.items())
    say(f"{origin}: labels are matched ignoring case: {shown}")
    return found
