"""Tables of texts and labels in the user's own files: columns and kind inferred, and said."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from shlex import quote
from typing import Any, cast

from bertcli import say
from bertcli.data.labelled.examples import TextExamples, is_blank, join_examples, text_examples
from bertcli.data.labelled.own_labels import CLASS_NAMES, ZERO_OR_ONE, infer_kind, missing_labels, one_spelling, spelled
from bertcli.data.labelled.own_splits import say_unread_split, sizes_of
from bertcli.data.text import tables
from bertcli.data.text.columns import ROWS_LOOKED_AT, TEXT_NAMES, characters_in, named
from bertcli.data.text.files import ending_of
from bertcli.data.text.tables import NumberedRow, Table, TableParts, TableStream, are_numbers, as_text
from bertcli.errors import UserError, flag_of, quoted, unknown
from bertcli.kinds.choice import CHOICE
from bertcli.kinds.text import TextKind
from bertcli.kinds.types import OwnData
from bertcli.tasks.task import Files, Task

LABEL_NAMES = (*CLASS_NAMES, "target", "sentiment", "score", "stars", "rating", "y")
PAIR_NAMES = ("text_pair", "sentence2", "hypothesis", "question2", "answer", "sentence")
CONTEXT_NAMES = ("sent1", "context", "ctx", "prompt", "startphrase", *TEXT_NAMES)  # what choices may follow
CHOICE_LISTS = ("choices", "endings", "options")
CHOICE_NAME = re.compile(r"(ending|choice|option)[ _]?(\d+|[a-h])", re.IGNORECASE)
MOST_SPACES = 3  # in the name of a column
YES_OR_NO = {"1": True, "1.0": True, "true": True, "0": False, "0.0": False, "false": False, "": False}


def read_tables(
    name: str,
    files: dict[str, list[Path]],
    given: dict[str, str | None],
    kind: TextKind | None,
    is_stored: bool = False,
) -> OwnData:
    """Make a task of tables, and the examples of each split; a test file may be without labels; `given` is as in `own_task`.

    With `is_stored`, the texts of big files are on disk, and a part of a table is in memory at a time.
    Raises UserError naming the file and the line, or the column, that is wrong.
    """
    from bertcli.kinds import KINDS

    given, form = {**given, "label_form": None}, given.get("label_form") or ""
    first, sources = _read(files, given, kind in (None, CHOICE), tables.read_parts if is_stored else _whole)
    kind, columns = _columns(first, given, kind)
    parts = {split: join_examples(_texts(split, read, columns), is_stored) for split, read in sources.items()}
    parts = _without_missing({split: _with_labels(split, part) for split, part in parts.items()}, kind)
    is_sentence = columns["text"].count(" ") > 2 * MOST_SPACES and not given.get("text")
    if is_sentence or (spelled(columns["label"]) in _labels(parts) and " " in columns["text"]):
        what = f"`{first.path}` line 1 looks like an example, not like the names of columns."
        raise UserError(what, _how_to_add_header(first, columns))
    name_of_kind, why = (kind.name, "") if kind else infer_kind(_labels(parts), columns["label"])
    own = _task(name, cast(TextKind, KINDS[name_of_kind]), why, Files({}, dict(columns), label_form=form), parts)
    _say_unread(name, first, columns)
    return own


def _without_missing(parts: dict[str, TextExamples], kind: TextKind | None) -> dict[str, TextExamples]:
    missing = (kind.missing_labels if kind else missing_labels)(_labels(parts))
    for split, part in parts.items():
        labels = part.labels and ["" if label.lower() in missing else label for label in part.labels]
        parts[split] = replace(part, labels=labels)
    return parts


def _task(name: str, kind: TextKind, why: str, files: Files, parts: dict[str, TextExamples]) -> OwnData:
    """The task of the examples that are complete; `why` says how its kind was inferred."""
    parts = {split: _complete(part, kind) for split, part in parts.items()}
    task = kind.learn_labels(Task(name, kind.name, files, ("", None), kind.metrics), _labels(parts))
    shown = ", ".join(f"{key} = `{column}`" for key, column in files.columns.items())
    say(f"{name}: {sizes_of(parts, 'row')}; {shown}; kind: {kind.name}{kind.described(task, _labels(parts))}{why}")
    if are_numbers(next(iter(parts.values())).texts):
        say(f"{name}: every `{files.columns['text']}` is a number; if it is not the text, give --text COLUMN")
    return task, dict(parts)


def _say_unread(name: str, table: Table, columns: dict[str, str]) -> None:
    """Say which columns of texts are not read: one may be a second text whose name does not show it."""
    say_unread_split(name, table, columns.values())
    rows = table.cells[:ROWS_LOOKED_AT]
    unread = [column for column in table.names if column not in columns.values() and _holds_texts(rows, column)]
    if unread:
        how = "" if "text_pair" in columns else f"; as the second text of a pair: --text-pair {unread[0]}"
        say(f"{name}: not read: {tables.columns_shown(unread)}{how}")


def _labels(parts: dict[str, TextExamples]) -> list[str]:
    return [label for part in parts.values() for label in part.labels or () if label]


def _read(
    files: dict[str, list[Path]], given: dict[str, str | None], may_choose: bool, read: Callable[[Path], TableParts]
) -> tuple[Table, dict[str, list[TableParts]]]:
    """The first rows, and the tables of each split, several columns of labels joined and a column of choices spread."""
    label = given.get("label") or ""
    sources = {split: [_joined(read(path), label) for path in paths] for split, paths in files.items()}
    (head, *_), *_ = sources.values()
    cells = (first := next(head.parts)).cells[0]
    sources[next(iter(sources))][0] = head = replace(head, parts=chain([first], head.parts))
    if may_choose and len(head.names) > 2:  # a text, its choices and a label
        sources = {split: [_spread(each, cells) for each in found] for split, found in sources.items()}
        first = _spread_part(first, cells)
    for key, column in given.items():
        if column not in (None, *first.names):
            how = f"Give {flag_of(key)} the name of a column"
            how += f"; of texts without labels: bert predict --file {quoted(first.path)}" * (key == "label")
            raise unknown(f"column of {first.path}:", column, first.names, f"{how}.")
    return first, sources


def _whole(path: Path) -> TableParts:
    table = tables.read_table(path)
    return TableParts(path, table.names, iter([table]))


def _joined(table: TableParts, label: str) -> TableParts:
    """The table with a column of lists in place of several of 0 and 1: `--label toxic,insult`."""
    columns = [name.strip() for name in label.split(",")]
    if label in table.names or not set(columns) & set(table.names):
        return table
    names = [*(name for name in table.names if name not in columns), label]

    def parts() -> Iterator[Table]:
        missing = 0
        for part in table.parts:
            missing += sum(not cell.strip() for name in columns for cell in part.column(name))
            cells = [own | {label: _marked(part, row, columns)} for row, own in enumerate(part.cells)]
            yield replace(part, names=names, cells=cells)
        if missing:
            say(f"{table.path}: {missing:,} empty cells in {label} count as 0")

    return TableParts(table.path, names, parts())


def _marked(table: Table, row: int, columns: list[str]) -> list[str]:
    """The columns in which a row has a 1."""
    cells = table.cells[row]
    marks = {name: YES_OR_NO.get(as_text(cells.get(name)).strip().lower()) for name in columns}
    for name, mark in marks.items():
        if mark is None:
            what = f"{table.place(row)} has `{cells.get(name)}` in the column `{name}`."
            raise UserError(what, "Mark a label with 1, others with 0.")
    return [name for name, mark in marks.items() if mark]


def _spread(table: TableParts, first: Mapping[str, Any]) -> TableParts:
    names, _ = spread_choices(table.path, table.names, (), first)
    return TableParts(table.path, names, (_spread_part(part, first) for part in table.parts))


def _spread_part(table: Table, first: Mapping[str, Any]) -> Table:
    names, spread = spread_choices(table.path, table.names, zip(table.numbers, table.cells, strict=True), first)
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
                what = f"{tables.place_of(path, number)} has {found}, the first row {len(choices)}."
                raise UserError(what, "Give every row as many choices.")
            yield number, cells | dict(zip(choices, cell, strict=True))

    return [*(name for name in names if name != column), *choices], spread()


def _texts(split: str, sources: list[TableParts], found: dict[str, str]) -> Iterator[TextExamples]:
    """The rows of a split in parts, each label in one spelling; a test file may be without labels."""
    if split == "test" and not any(found["label"] in table.names for table in sources):
        found = {key: name for key, name in found.items() if key != "label"}
    origin = ", ".join(str(table.path) for table in sources)
    for part in chain.from_iterable(table.parts for table in sources):
        _check_cells(part, found)
        read = {key: part.column(name) for key, name in found.items()}
        labels = one_spelling(read["label"], origin) if "label" in read else None
        yield replace(text_examples(read, origin), labels=labels, places=[*map(part.place, range(len(part)))])


def _with_labels(split: str, part: TextExamples) -> TextExamples:
    """The examples of a split; without labels for a test file whose labels are all -1 or empty."""
    if split != "test" or not {*(part.labels or ())} <= {"", "-1"}:
        return part
    say(f"{part.origin}: without labels")
    return replace(part, labels=None)


def _check_cells(table: Table, found: dict[str, str]) -> None:
    """Check that texts are texts, and labels texts, numbers or lists. Raises UserError if not."""
    for key, name in found.items():
        for row, cells in enumerate(table.cells):
            cell = cells.get(name)
            if key == "label" and isinstance(cell, dict):
                what = f"{table.place(row)} has an object where a label should be."
                raise UserError(what, 'Give its name: {"label": "good"}')
            if key != "label" and isinstance(cell, list | dict):
                shape = "a list" if isinstance(cell, list) else "an object"
                raise UserError(f"{table.place(row)} has {shape} where a text should be.", "Give one text a column.")


def _complete(part: TextExamples, kind: TextKind) -> TextExamples:
    """The examples that have a text and a label; the others are counted and left out."""
    kind.check_labels(part)
    lacks_text = [*map(is_blank, part.texts)]
    lacks_label = list(map(kind.lacks_label, part.labels or ()))
    for what, odd in {
        "no text and are left out": lacks_text,
        "no label and are left out": lacks_label,
        "no second text": [*map(is_blank, part.pairs or ())],
        "an empty choice": [any(map(is_blank, choices)) for choices in part.choices or ()],
    }.items():
        if any(odd):
            first = part.place(odd.index(True))
            say(f"{part.origin}: {sum(odd):,} of {len(part):,} rows have {what}; the first is {first}")
    return _without(part, list(map(any, zip(lacks_text, lacks_label or lacks_text, strict=True))))


def _without(part: TextExamples, is_odd: list[bool]) -> TextExamples:
    if not any(is_odd):
        return part
    if all(is_odd):
        what = f"`{part.origin}` holds no row with a text and a label."
        raise UserError(what, "Give the columns: --text COLUMN --label COLUMN")
    kept = [row for row, odd in enumerate(is_odd) if not odd]
    return replace(part.take(kept), skipped=part.skipped + len(part) - len(kept))


def choice_columns(names: list[str], text: str | None = None) -> dict[str, str]:
    """The columns of a text and its choices, such as `ending0` or `choice_a`; none where there are not two of them."""
    found = sorted(filter(None, map(CHOICE_NAME.fullmatch, names)), key=lambda match: match[2].lower().rjust(9))
    choices = [match[0] for match in found]
    others = [name for name in names if name.lower() not in {*map(str.lower, choices), *LABEL_NAMES}]
    text = text or named(CONTEXT_NAMES, names) or (others[0] if len(others) == 1 else None)
    if len(choices) < 2 or text is None:
        return {}
    start = {"choice_start": "sent2"} if text == "sent1" and "sent2" in names else {}  # in SWAG, of each choice
    return {"text": text, **start, **{f"choice{number}": name for number, name in enumerate(choices)}}


def _how_to_name(first: Table) -> str:
    """What to type where the text and the label are not told apart by the names of the columns."""
    numbers, rows = sum(are_numbers([name]) for name in first.names), first.cells[:ROWS_LOOKED_AT]
    if any(name.count(" ") >= MOST_SPACES for name in first.names) or numbers not in (0, len(first.names)):
        return f"{_how_to_add_header(first, {})}; then name the columns: --text and --label"
    text = max(first.names, key=partial(characters_in, rows), default="")
    values = {name: {as_text(row.get(name)) for row in rows} for name in first.names if name != text}
    if not values:
        return "Add a column of labels."
    marks = [name for name, found in values.items() if {*map(spelled, found)} <= ZERO_OR_ONE]
    label = ",".join(marks) if marks[1:] else min(values, key=lambda name: (len(values[name]) == 1, len(values[name])))
    are_pairs = sum(map(partial(_holds_texts, rows), first.names)) > 1
    return f"Name them, such as --text {quote(text)} --label {quote(label)}{'; of pairs --text-pair too' * are_pairs}"


def _how_to_add_header(first: Table, columns: dict[str, str]) -> str:
    """What to type where a file begins with an example; `columns` are the parts of an example that are known."""
    parts = {name: part for part, name in columns.items()}
    names = [parts.get(name, f"column{number}") for number, name in enumerate(first.names, start=1)]
    ending = ending_of(first.path)
    line = {".tsv": "\\t"}.get(ending, ",").join(names)
    return f"Add a header line: (printf '{line}\\n'; cat {quoted(first.path)}) > named{ending}"


def _columns(
    first: Table, given: dict[str, str | None], kind: TextKind | None
) -> tuple[TextKind | None, dict[str, str]]:
    """The kind, if the columns show it, and the column of each part of an example: as given, by name, or left over."""
    names = first.names
    choices = choice_columns(names, given.get("text")) if kind in (None, CHOICE) else {}
    shown = f"The columns of `{first.path}` are {tables.columns_shown(names)}"
    if choices:
        kind, given = CHOICE, {**given, "text": choices["text"]}
        names = [column for column in names if not CHOICE_NAME.fullmatch(column)]
    elif kind is CHOICE:
        what = f"{shown}: none are choice_0, choice_1 ... after a text."
        raise UserError(what, "Rename them, or give the text: --text COLUMN")
    text, pair, label = _named_columns(first, names, given)
    if text is None or label is None:
        raise UserError(f"{shown}: which is the text and which the label?", _how_to_name(first))
    if len({text, pair, label}) < 3:
        what = f"{shown}: one of them is used twice."
        raise UserError(what, "Give each of --text, --text-pair and --label another.")
    return kind, choices | {"text": text, **({"text_pair": pair} if pair else {}), "label": label}


def _named_columns(table: Table, names: list[str], given: dict[str, str | None]) -> list[str | None]:
    """The columns of the text, the second text and the label; a second text is looked for only if no text is given."""
    text, pair, label = (given.get(key) for key in ("text", "text_pair", "label"))
    left = [name for name in names if name not in (text, pair, label)]

    def take(column: str | None) -> str | None:
        if column in left:
            left.remove(column)
        return column

    label = label or take(named(LABEL_NAMES, left))
    if text is None:
        text = take(named(TEXT_NAMES, left))
        pair = pair or take(named(PAIR_NAMES, left))
    if text is None and left:
        text = take(max(left, key=partial(characters_in, table.cells[:ROWS_LOOKED_AT])))
    if label is None and len(left) == 1:
        label = left[0]
    return [text, pair, label]


def _holds_texts(rows: list[dict[str, Any]], column: str) -> bool:
    """Whether cells are texts of more than one word, most of them."""
    cells = (cell for row in rows if not isinstance(cell := row.get(column), (dict, list)))
    return sum(" " in as_text(cell).strip() for cell in cells) > len(rows) / 2
