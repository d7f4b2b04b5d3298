"""Files of predictions: predictions as JSON lines, CSV or TSV, and the official files of SQuAD."""

import csv
import json
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from itertools import count as count_from
from pathlib import Path
from typing import IO, Any

from bertcli import number_of, say
from bertcli.data.atomic import part_of, remove, replace, write_text
from bertcli.data.text.files import ending_of, has_byte_order_mark
from bertcli.data.text.tables import DELIMITERS, delimiter_of
from bertcli.errors import UserError, check_file
from bertcli.kinds import KINDS
from bertcli.kinds.types import Prediction

Columns = dict[str, Any]  # of an input
ANSWERS = {kind.says for kind in KINDS.values() if kind.reads_tables}  # keys that become a column `prediction`
FORMS = {"--output": ("CSV, TSV or JSONL", (".csv", ".tsv", ".jsonl", ".json")), "--explain-page": ("HTML", (".html",))}
FORMS |= {"--features": ("Parquet, .npz or JSONL", (".parquet", ".npz", ".jsonl"))}


def write_official(files: dict[str, str], path: Path) -> None:
    """Write official predictions to a file, and the files that belong to them beside it."""
    prefix = "" if path.name in files else f"{path.stem}-"
    main, *_ = files
    for name, text in files.items():
        place = path if name == main else path.with_name(prefix + name)
        write_text(place, text)
        say(f"wrote {place}")


def check_output(option: str, path: Path, source: str | None) -> None:
    """Raise UserError if the ending is unknown, or the file cannot be written or holds the inputs."""
    forms, endings = FORMS[option]
    if path.suffix not in endings:
        raise UserError(f"`{path}` is not {forms}.", f"Give {option} a name such as {option[2:]}{endings[0]}.")
    check_file(path, option)
    if source and path.exists() and Path(source).exists() and path.samefile(source):
        raise UserError(f"`{path}` holds the inputs.", f"Give {option} another name.")


def write_predictions(rows: Iterable[tuple[Columns, Prediction]], path: Path, like: str | None = None) -> int:
    """Write predictions as they come, each after the columns of its input; JSON lines, CSV or TSV by the file's ending.

    `like`: a file of inputs; with the same ending, the predictions have its separator, and its byte-order mark if it has one.
    Returns the number of predictions. Raises UserError if the file cannot be opened. After an error an older file is as it
    was; where there was none, what was written before is kept.
    """
    rows = iter(rows)
    first = next(rows, None)  # where nothing can be predicted, an older file is kept
    count, part, is_whole = 0, part_of(path), False
    is_same = ending_of(Path(like or "")) == path.suffix in DELIMITERS
    delimiter = delimiter_of(Path(str(like))) if is_same else DELIMITERS.get(path.suffix, "")
    encoding = "utf-8-sig" if is_same and has_byte_order_mark(Path(str(like))) else "utf-8"
    try:
        file = part.open("w", encoding=encoding, newline="", buffering=1)
    except OSError as error:
        raise UserError(f"`{path}` cannot be written: {error.strerror}.", "Give --output another file.") from None
    try:
        with file:
            write = _writer(file, path, delimiter, *(first or ({}, {})))
            for columns, prediction in chain([first] if first else [], rows):
                write(columns, prediction)
                count += 1
        is_whole = True
    finally:
        if is_whole or not path.exists():
            replace(part, path)
            say(f"wrote {path}: {number_of(count, 'prediction')}")
        else:
            remove(part)
            say(f"{path} is as it was")
    return count


def _writer(
    file: IO[str], path: Path, delimiter: str, columns: Columns, prediction: Prediction
) -> Callable[[Columns, Prediction], object]:
    """What writes a prediction to a file; the first one names the columns."""
    if not delimiter:
        names = _names(columns, prediction, str(path))
        return lambda columns, prediction: file.write(
            json.dumps(_beside(columns, prediction, names), ensure_ascii=False, default=str) + "\n"
        )
    names = _names(columns, flat(prediction), str(path))
    writer = csv.writer(file, delimiter=delimiter)
    writer.writerow([*columns, *names.values()])
    return lambda columns, prediction: writer.writerow(
        [*map(_cell, columns.values()), *(_cell(flat(prediction).get(name)) for name in names)]
    )


def beside_inputs(rows: Iterable[tuple[Columns, Prediction]]) -> Iterator[Columns]:
    """Predictions after the columns of their inputs, as a file of JSON lines has them."""
    names: dict[str, str] | None = None
    for columns, prediction in rows:
        names = _names(columns, prediction, "output") if names is None else names
        yield _beside(columns, prediction, names)


def _beside(columns: Columns, prediction: Prediction, names: dict[str, str]) -> Columns:
    return columns | {names.get(name, name): value for name, value in prediction.items()}


def _names(columns: Columns, added: Columns, place: str) -> dict[str, str]:
    """What the columns of predictions are called: a name that the input has already is replaced, with a message."""
    names: dict[str, str] = {}
    for name in added:
        taken = {*columns, *names.values(), *(added.keys() - {name})}
        names[name] = next(each for each in _spellings(name) if each not in taken)
        if names[name] != name:
            say(f"{place}: the input has a column `{name}` already; that of the predictions is `{names[name]}`")
    return names


def _spellings(name: str) -> Iterator[str]:
    """A name, and what replaces it: a `label` of the input may be the right answer, so ours becomes `prediction`."""
    first = [name, "prediction"] if name in ANSWERS else [name]
    return chain(first, (f"{first[-1]}_{number}" for number in count_from(2)))


def flat(prediction: Prediction) -> Columns:
    """A prediction in columns: the answer as `prediction`, and a column a label for probabilities."""
    columns: Columns = {}
    for key, value in prediction.items():
        if key == "scores" and isinstance(value, dict):
            columns |= {f"score_{name}": share for name, share in value.items()}
        else:
            columns["prediction" if key in ANSWERS else key] = value
    return columns


def _cell(value: Any) -> Any:
    """A value of a CSV or TSV file: lists as JSON."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value
