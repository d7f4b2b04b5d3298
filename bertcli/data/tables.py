"""Files of rows: CSV, TSV, JSONL and Parquet, each row with the line where it begins."""

from __future__ import annotations

import csv
import io
import json
import logging
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertcli.data.documents import COMPRESSED, read_text, reading
from bertcli.errors import UserError, unknown

logger = logging.getLogger("bertcli")
DELIMITERS = {".csv": ",", ".tsv": "\t"}
TABLE_ENDINGS = (*DELIMITERS, ".jsonl", ".json", ".parquet")
OTHER_DELIMITERS = ";\t|,"  # what a file may use in spite of its name
csv.field_size_limit(2**31 - 1)  # a field may be a whole book


@dataclass(frozen=True)
class Rows:
    """The rows of a file: cells by the names of their columns, and where each row begins."""

    path: Path
    names: list[str]
    cells: list[dict[str, Any]]
    numbers: list[int]  # of the line in the file, from 1; in Parquet, of the row

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.cells)

    def column(self, name: str) -> list[str]:
        """The cells of a column as text, a missing one as "".

        Raises:
            UserError: if there is no such column.
        """
        if name not in self.names:
            raise unknown(f"column of {self.path}:", name, self.names)
        return [as_text(row.get(name)) for row in self.cells]

    def place(self, row: int) -> str:
        """Where a row stands, for messages."""
        return f"`{self.path}` {'row' if ending_of(self.path) == '.parquet' else 'line'} {self.numbers[row]}"


def ending_of(path: Path) -> str:
    """The ending of a file's name, without that of a compression."""
    return Path(path.stem if path.suffix in COMPRESSED else path.name).suffix.lower()


def check_file(path: Path) -> None:
    """Check that a file is there.

    Raises:
        UserError: if it is not, or is a folder.
    """
    if not path.exists():
        raise UserError(
            f"There is no file `{path}`.", "Give a task (`bert tasks`) or a CSV, TSV, JSONL or Parquet file."
        )
    if path.is_dir():
        raise UserError(f"`{path}` is a folder.", "Name a CSV, TSV, JSONL or Parquet file in it.")


def read_rows(path: Path) -> Rows:
    """Read a file of rows by its ending.

    Raises:
        UserError: naming the file and the line that is wrong, or what the file is instead.
    """
    check_file(path)
    ending = ending_of(path)
    if ending == ".parquet":
        names, cells, numbers = _parquet(path)
    elif ending in (".jsonl", ".json"):
        names, cells, numbers = _json(path)
    elif ending in DELIMITERS:
        names, cells, numbers = _delimited(path, DELIMITERS[ending])
    else:
        read_text(path)  # says what it is where it is no text
        raise UserError(
            f"`{path}` is not CSV, TSV, JSONL or Parquet.",
            "Rename it to its kind, such as reviews.csv; or for words with tags: --kind tag",
        )
    twice = next((name for name in names if name and names.count(name) > 1), None)
    if twice is not None:
        where = "" if ending == ".parquet" else " line 1"
        raise UserError(f"`{path}`{where} has two columns `{twice}`.", "Give each column its own name.")
    if not cells:
        what = f"has the columns {', '.join(names)} but" if names else "is empty; it"
        raise UserError(f"`{path}` {what} holds no examples.", "Put a header line and examples into it.")
    return Rows(path, [name for name in names if name], cells, numbers)


Read = tuple[list[str], list[dict[str, Any]], list[int]]  # names, rows and where they begin


def _parquet(path: Path) -> Read:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with reading(path) as file:
        data = file.read()
    try:
        table = pq.ParquetFile(pa.BufferReader(data)).read()
    except (pa.ArrowException, OSError) as error:
        raise UserError(
            f"`{path}` is not Parquet: {str(error).splitlines()[0]}", "Check the file, or write it again."
        ) from None
    names = table.column_names
    cells = [] if len(set(names)) < len(names) else table.to_pylist()
    return names, cells, list(range(1, len(cells) + 1))


def _json(path: Path) -> Read:
    text = read_text(path)
    cells: list[dict[str, Any]] = []
    numbers = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (json.JSONDecodeError, RecursionError):
            raise _not_lines(path, text, line, 0 if not cells else number) from None
        if not isinstance(row, dict):
            raise UserError(
                f"`{path}` line {number} is not an object.", 'Write lines such as {"text": "...", "label": "..."}.'
            )
        cells.append(row)
        numbers.append(number)
    return list(dict.fromkeys(name for row in cells for name in row)), cells, numbers


def _not_lines(path: Path, text: str, line: str, number: int) -> UserError:
    """What is wrong at a line; at the first, without a number, a file may be one value over many lines."""
    try:
        json.loads(line if number else text)
    except (json.JSONDecodeError, RecursionError) as error:
        number, what = number or getattr(error, "lineno", 1), getattr(error, "msg", "too many brackets")
        return UserError(f"`{path}` line {number} is not JSON: {what}.", "Put one JSON object on each line.")
    return UserError(
        f"`{path}` is one JSON value over many lines, not an object on each.",
        f"Write it as JSONL: jq -c '.[]' {path} > {path.name.partition('.')[0]}.jsonl",
    )


def _delimited(path: Path, usual: str) -> Read:
    """Read CSV or TSV; with the delimiter that its first line has, where that is another one than usual."""
    text = read_text(path)
    if "\n" not in text:
        text = text.replace("\r", "\n")  # as old Macs end lines
    header = re.sub(r'"[^"]*"', "", text.lstrip("\r\n").partition("\n")[0])
    delimiter = usual if usual in header else max(OTHER_DELIMITERS, key=header.count)
    if delimiter not in header:
        delimiter = usual
    elif delimiter != usual:
        logger.info("%s: its columns stand apart by %s", path, "tabs" if delimiter == "\t" else f"`{delimiter}`")
    (_, header_fields), *records = _records(path, text, delimiter) or [(1, [])]
    names = [name.strip() for name in header_fields]
    cells = [dict(zip(names, fields, strict=True)) for _, fields in records]
    return names, cells, [number for number, _ in records]


def _records(path: Path, text: str, delimiter: str) -> list[tuple[int, list[str]]]:
    """The fields of each record with the line where it begins.

    Many TSV files know no quoting, so that a quotation mark is a quotation mark: those whose lines have all the same
    number of fields, and fewer records, or none, if they are read as quoted.
    """
    if delimiter != "\t" or '"' not in text:
        return _same_width(path, _parse(path, text, delimiter, csv.QUOTE_MINIMAL))
    try:
        plain = _same_width(path, _parse(path, text, delimiter, csv.QUOTE_NONE))
    except UserError:
        return _same_width(path, _parse(path, text, delimiter, csv.QUOTE_MINIMAL))
    try:
        quoted = _same_width(path, _parse(path, text, delimiter, csv.QUOTE_MINIMAL))
    except UserError:
        quoted = []
    if len(quoted) < len(plain):
        logger.info("%s: quotation marks are part of the text, as in files without quoting", path)
        return plain
    return quoted


def _parse(path: Path, text: str, delimiter: str, quoting: Any) -> list[tuple[int, list[str]]]:
    reader = csv.reader(
        io.StringIO(text, newline="\n"), delimiter=delimiter, quoting=quoting, strict=True, skipinitialspace=True
    )
    records, begin = [], 1
    try:
        for fields in reader:
            if fields:
                records.append((begin, fields))
            begin = reader.line_num + 1
    except csv.Error as error:
        what = "a quotation mark is never closed" if "end of data" in str(error) else str(error).partition(" - ")[0]
        raise UserError(
            f"`{path}` line {begin}: {what}.",
            'Check its quotation marks; one inside a quoted field is written twice: "He said ""no"""',
        ) from None
    return records


def _same_width(path: Path, records: list[tuple[int, list[str]]]) -> list[tuple[int, list[str]]]:
    """Records of which each has as many fields as the first, the header.

    Raises:
        UserError: naming the first line that has not.
    """
    width = len(records[0][1]) if records else 0
    for number, fields in records:
        if len(fields) != width:
            raise UserError(
                f"`{path}` line {number} has {len(fields)} field{'s' * (len(fields) != 1)}, the header {width}.",
                "Put quotation marks around a field with a separator or a line break in it.",
            )
    return records


def as_text(value: Any) -> str:
    """A cell as text: lists and objects as JSON, a missing one (null, NaN) as "".

    Half a surrogate pair, which JSON can spell and no text can hold, becomes a question mark.
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, (list, dict)) else str(value)
    return text.encode("utf-8", "replace").decode("utf-8")


def are_numbers(cells: Iterable[str]) -> bool:
    """Whether every cell is a finite number."""
    try:
        return all(math.isfinite(float(cell)) for cell in cells)
    except ValueError:
        return False
