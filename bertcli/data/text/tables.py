"""Files of rows: CSV, TSV, JSONL and Parquet, each row with the line where it begins."""

import csv
import io
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from shlex import quote
from typing import Any, TypeVar

from bertcli import number_of, say
from bertcli.data.text import files
from bertcli.data.text.files import TABLE_ENDINGS, ending_of
from bertcli.errors import UserError, check_regular, first_line, quoted, repeated, unknown

DELIMITERS = {".csv": ",", ".tsv": "\t"}
LINES_LOOKED_AT = 100_000  # for a space between a separator and a quotation mark
JSON_ENDINGS = (".jsonl", ".json")
LIST_ENDINGS = (*JSON_ENDINGS, ".parquet")  # whose cells may be lists and objects
OTHER_DELIMITERS = ";\t|,"  # what a file may use in spite of its name
ROWS_AT_ONCE = 1000  # of those that are read as they are asked for
CHARACTERS_AT_ONCE, CHARACTERS_OF_A_ROW = 2**22, 2**8  # in a part of a table, and the least that a row counts for
Item = TypeVar("Item")
NumberedRow = tuple[int, dict[str, Any]]  # its place, as in `Table.numbers`, and its cells
TableStream = tuple[list[str], Iterator[NumberedRow]]
csv.field_size_limit(files.LONGEST_LINE)  # a field may be a whole book
ROWS_PER_BYTE = 100  # of Parquet, at most
SHOWN_COLUMNS = 20  # in a message


@dataclass(frozen=True)
class Table:
    """The rows of a file: cells by the names of their columns, and where each row begins."""

    path: Path
    names: list[str]
    cells: list[dict[str, Any]]
    numbers: list[int]  # of the line in the file, from 1; in Parquet, of the row

    def __len__(self) -> int:
        return len(self.cells)

    def column(self, name: str) -> list[str]:
        """The cells of a column as text, a missing one as "". Raises UserError if there is no such column."""
        if name not in self.names:
            raise unknown(f"column of {self.path}:", name, self.names, "Rename it: all files have the same columns.")
        return [as_text(row.get(name)) for row in self.cells]

    def place(self, row: int) -> str:
        """Where a row stands, for messages."""
        return place_of(self.path, self.numbers[row])


@dataclass(frozen=True)
class TableParts:
    """The rows of a file, a part in memory at a time."""

    path: Path
    names: list[str]
    parts: Iterator[Table]


def place_of(path: Path, number: int) -> str:
    """Where a row of a file stands, for messages."""
    return f"`{shown(path)}` {'row' if ending_of(path) == '.parquet' else 'line'} {number}"


def shown(path: str | Path) -> str:
    """The name of a file, for messages."""
    return "standard input" if str(path) == "-" else str(path)


def count_rows(path: Path) -> int:
    """The number of a file's last line, or row in Parquet."""
    return int(_open_parquet(path).metadata.num_rows) if ending_of(path) == ".parquet" else files.count_lines(path)


def check_file(path: Path, hint: str = "Give a task (`bert tasks`) or a CSV, TSV, JSONL or Parquet file.") -> None:
    """Check that a file is there. Raises UserError if it is not, or is a folder; `hint` is what to give."""
    if not path.exists() or path.is_dir():
        raise UserError(f"`{path}` is a folder." if path.exists() else f"There is no file `{path}`.", hint)
    check_regular(path)


def read_table(path: Path) -> Table:
    """Read a whole file of rows. Raises UserError naming the file and the line, or what the file is instead."""
    names, rows = stream_table(path)
    numbers, cells = zip(*rows, strict=True)
    every = dict.fromkeys(chain(names, *cells))  # JSON lines need not have the same names
    return Table(path, [name for name in every if name], list(cells), list(numbers))


def read_parts(path: Path) -> TableParts:
    """Read a file of rows in parts of some MB. Raises UserError as `stream_table`."""
    names, rows = stream_table(path)
    if ending_of(path) in JSON_ENDINGS:  # any line may have another name
        names = [name for name in dict.fromkeys(chain.from_iterable(cells for _, cells in rows)) if name]
        _, rows = stream_table(path)
    chunks = chunks_of(rows, CHARACTERS_AT_ONCE, lambda row: CHARACTERS_OF_A_ROW + len(str(row[1])))
    return TableParts(
        path, names, (Table(path, names, [row[1] for row in chunk], [row[0] for row in chunk]) for chunk in chunks)
    )


def stream_table(path: Path) -> TableStream:
    """The names of a file's columns, and its rows, read as they are asked for; JSON lines are named by the first 1,000.

    Raises UserError as `read_table`, when the wrong line is reached.
    """
    check_file(path)
    ending = ending_of(path)
    if ending not in TABLE_ENDINGS:
        files.read_text(path)  # names the format if it is not text
        hint = "Rename it to its kind, such as reviews.csv; words with their tags in columns, to words.conll."
        raise UserError(f"`{path}` is not CSV, TSV, JSONL or Parquet.", hint)
    if ending in DELIMITERS:
        columns, rows = _delimited(path)
    else:
        columns, rows = _parquet(path) if ending == ".parquet" else json_rows(path, files.lines_of(path))
    names = [name for name in columns if name]
    if twice := repeated(names):
        what = f"`{path}`{' line 1' if ending in DELIMITERS else ''} has two columns `{twice[0]}`."
        raise UserError(what, "Give each column its own name, in a line before the examples.")
    first = next(rows, None)
    if first is None:
        what = f"has the columns {columns_shown(names)} but" if names else "is empty; it"
        raise UserError(f"`{path}` {what} holds no examples.", "Put a header line and examples into it.")
    return names, chain([first], rows)


def columns_shown(names: list[str]) -> str:
    """The names of columns in a message, the first of very many."""
    others = f" and {len(names) - SHOWN_COLUMNS:,} others" if len(names) > SHOWN_COLUMNS else ""
    return ", ".join(names[:SHOWN_COLUMNS]) + others


def chunks_of(items: Iterable[Item], most: int, weight: Callable[[Item], int] = lambda item: 1) -> Iterator[list[Item]]:
    """Group items into lists whose weight is at least `most`; on an error, yield the items before it, then raise it."""
    chunk: list[Item] = []
    weighed, wrong = 0, None
    try:
        for item in items:
            chunk.append(item)
            weighed += weight(item)
            if weighed >= most:
                yield chunk
                chunk, weighed = [], 0
    except UserError as error:
        wrong = error
    if chunk:
        yield chunk
    if wrong:
        raise wrong


def _parquet(path: Path) -> TableStream:
    file = _open_parquet(path)

    def rows() -> Iterator[NumberedRow]:
        with _parquet_errors(path):
            batches = (_dates_as_text(batch).to_pylist() for batch in file.iter_batches(ROWS_AT_ONCE))
            yield from enumerate(chain.from_iterable(batches), start=1)

    return file.schema_arrow.names, rows()


def _dates_as_text(batch: Any) -> Any:
    """Dates and times as text: Python's end with the year 9999, and need a known time zone."""
    import pyarrow as pa

    for index, column in enumerate(batch.columns):
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp(column.type.unit))
        if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
            batch = batch.set_column(index, batch.schema.names[index], column.cast(pa.string()))
    return batch


def _open_parquet(path: Path) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with files.reading(path) as file:
        source = pa.BufferReader(file.read(files.LONGEST_FILE)) if path.suffix in files.COMPRESSED else path
    with _parquet_errors(path):
        opened = pq.ParquetFile(source, pre_buffer=False)  # a buffer would keep what was read
    if opened.metadata.num_rows > ROWS_PER_BYTE * path.stat().st_size:
        what = f"`{path}` has {opened.metadata.num_rows:,} rows in {path.stat().st_size:,} bytes."
        raise UserError(what, "Text does not compress that well: check where the file is from.")
    return opened


@contextmanager
def _parquet_errors(path: Path) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise UserError(f"`{path}` is not Parquet: {first_line(error)}.", "Check it, or write it again.") from None


def json_rows(path: Path, lines: Iterable[str]) -> TableStream:
    """The names and the rows of JSON lines. Raises UserError as `stream_table`."""
    chunks = chunks_of(_json(path, lines), ROWS_AT_ONCE)
    first = next(chunks, [])
    return list(dict.fromkeys(name for _, row in first for name in row)), chain(first, chain.from_iterable(chunks))


def _json(path: Path, lines: Iterable[str]) -> Iterator[NumberedRow]:
    begun = False
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        row = json_value(line)
        if not isinstance(row, dict):
            raise _not_lines(path, number, line if begun or row is not None else None)
        begun = True
        yield number, row


def json_value(text: str) -> Any:
    """The value that JSON is of; None where the text is no JSON."""
    try:
        return json.loads(text, object_pairs_hook=_with_keys_once)
    except (ValueError, RecursionError):  # a number may have too many digits
        return None


class _KeyTwice(ValueError):
    pass


def _with_keys_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise _KeyTwice(f"has the key `{repeated(key for key, _ in pairs)[0]}` twice")
    return made


def _not_lines(path: Path, number: int, line: str | None) -> UserError:
    """What is wrong at a line; without one, of the whole file, which may be one value with a list of rows."""
    try:
        value = json.loads(files.read_text(path) if line is None else line, object_pairs_hook=_with_keys_once)
    except _KeyTwice as error:
        return UserError(f"`{path}` line {number} {error}.", "Give it one value.")
    except (ValueError, RecursionError) as error:
        number = number if line else getattr(error, "lineno", 1)
        what = getattr(error, "msg", "too many digits or brackets")
        return UserError(f"`{path}` line {number} is not JSON: {what}.", "Put one JSON object on each line.")
    for name, rows in {"": value, **(value if isinstance(value, dict) else {})}.items():
        if isinstance(rows, list) and rows and isinstance(rows[0], dict):
            selected, file = f'."{name}"[]' if name else ".[]", path.name.partition(".")[0]
            file += "-lines" if path.name == f"{file}.jsonl" else ""  # not the file itself
            hint = f"Write it as JSONL: jq -c {quote(selected)} {quoted(path)} > {quote(f'{file}.jsonl')}"
            return UserError(f"`{path}` is one JSON value, not an object on each line.", hint)
    hint = 'Write lines such as {"text": "...", "label": "..."}.'
    return UserError(f"`{path}` line {number} is not an object.", hint)


def delimiter_of(path: Path) -> str:
    """What separates the columns of CSV or TSV: what usually does, or what the first line has instead."""
    usual = DELIMITERS[ending_of(path)]
    bare = re.sub(r'"[^"]*"', "", next((line for line in _lines(path) if line.strip("\r\n")), ""))
    return usual if usual in bare else max(usual + OTHER_DELIMITERS, key=bare.count)


def _delimited(path: Path) -> TableStream:
    delimiter = delimiter_of(path)
    if delimiter != DELIMITERS[ending_of(path)]:
        say(f"{path}: its columns are separated by {'tabs' if delimiter.isspace() else f'`{delimiter}`'}")
    records = _records(path, delimiter, _quoting(path, delimiter))
    names = [name.strip() for name in next(records, (1, []))[1]]
    return names, ((number, dict(zip(names, fields, strict=True))) for number, fields in records)


def _lines(path: Path) -> Iterator[str]:
    r"""The lines of a file; old Macs end them with `\r` alone. Of Excel's line `sep=;` only the end stays."""
    lines = files.lines_of(path)
    first = re.sub(r'^"?sep=."?(?=\r?\n)', "", next(lines, ""))
    yield from [first] if first.endswith("\n") else io.StringIO(first.replace("\r", "\n"), newline="\n")
    yield from lines


def _quoting(path: Path, delimiter: str) -> int:
    """How quotation marks are read: those of a TSV file as text, if that gives more records, of equal length."""
    is_header_quoted = next(_lines(path), "").startswith('"')
    if delimiter != "\t" or is_header_quoted or not any('"' in line for line in _lines(path)):
        return csv.QUOTE_MINIMAL
    counts = {}
    for quoting in (csv.QUOTE_MINIMAL, csv.QUOTE_NONE):
        try:
            counts[quoting] = sum(1 for _ in _records(path, delimiter, quoting))
        except UserError:
            counts[quoting] = 0
    quoting = max(counts, key=counts.__getitem__)  # of the same number, the first
    if quoting == csv.QUOTE_NONE:
        say(f"{path}: quotation marks are part of the text, as in files without quoting")
    return quoting


def _records(path: Path, delimiter: str, quoting: Any) -> Iterator[tuple[int, list[str]]]:
    """The fields of each record, as many as in the header, with the line where it begins.

    Raises UserError naming the first line with another number of fields or wrong quotation marks.
    """
    spaced = delimiter != "\t" and any(f'{delimiter} "' in line for line in islice(_lines(path), LINES_LOOKED_AT))
    reader = csv.reader(_lines(path), delimiter=delimiter, quoting=quoting, strict=True, skipinitialspace=spaced)
    begin, width = 1, 0
    try:
        for fields in reader:
            width = width or len(fields)
            if fields and len(fields) != width:
                what = f"`{path}` line {begin} has {number_of(len(fields), 'field')}, the header {width}."
                raise UserError(what, "Put quotation marks around a field with a separator or a line break in it.")
            if fields:
                yield begin, fields
            begin = reader.line_num + 1
    except csv.Error as error:
        what = "a quotation mark is never closed" if "end of data" in str(error) else str(error).partition(" - ")[0]
        hint = 'Check its quotation marks; one inside a quoted field is written twice: "He said ""no"""'
        raise UserError(f"`{path}` line {begin}: {what}.", hint) from None


def as_text(value: Any) -> str:
    """A cell as text: lists as Python writes them, a missing one (null, NaN) as "".

    Half a surrogate pair, which JSON can spell and no text can hold, becomes a question mark.
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value).encode("utf-8", "replace").decode("utf-8")


def are_numbers(cells: Iterable[str]) -> bool:
    """Whether every cell is a finite number."""
    try:
        return all(math.isfinite(float(cell)) for cell in cells)
    except ValueError:
        return False
