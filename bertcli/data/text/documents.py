"""The documents of a corpus: of text files separated by blank lines, of tables a row each."""

import glob
import os
import re
from collections.abc import Iterable, Iterator
from itertools import chain, pairwise
from pathlib import Path

from bertcli import number_of, quietly, say
from bertcli.data.remote import find_files, is_empty, is_url
from bertcli.data.text.columns import text_column_of
from bertcli.data.text.files import COMPRESSED, LONGEST_LINE, TABLE_ENDINGS, ending_of, lines_of
from bertcli.data.text.tables import as_text, place_of, stream_table
from bertcli.errors import UserError, check_regular

TEXT_ENDINGS = (".txt", *(f".txt{ending}" for ending in COMPRESSED))
# The end of a sentence with its closing quotation marks, but not of "Mr." or "J.", nor before a small letter.
SENTENCE_END = re.compile(
    r"""(?<=[.!?…])(?<!\b[A-Z]\.)(?<!\b(?:Mr|Ms|Dr|St)\.)(?<!\bMrs\.)["'”’»)\]]*(?=\s+[^\sa-z])"""
    r"""|(?<=[。！？])[”’」』）]*(?=[^。！？”’」』）])"""
)


def find_text_files(names: Iterable[str], text_column: str | None = None) -> list[Path]:
    """Expand files, folders and patterns in the order given, the files of a folder or pattern sorted, each once.

    Raises UserError if a name leads to no file, to an empty one, to a table without the column, or to one at a URL.
    """
    named = [path for name in names for path in _expand(name)]
    paths = [*{str(path) if is_url(path) else os.path.realpath(path): path for path in named}.values()]
    if more := len(named) - len(paths):
        say(f"{more} of {number_of(len(named), 'file')} were named before, and are read once")
    if not paths:
        raise UserError("No text files were given.", "Name them after the command, such as corpus/*.txt.")
    for path in paths:
        if not is_url(path):
            check_regular(path)
        if is_empty(path):
            raise UserError(f"The text file `{path}` is empty.", "Leave it out, or put text into it.")
        if _is_table(path) and is_url(path):
            raise UserError(f"`{path}` is a table, which is not read at a URL.", "Copy it to this machine.")
    _say_columns([*filter(_is_table, paths)], text_column)
    return paths


def _is_table(path: Path) -> bool:
    return ending_of(path) in TABLE_ENDINGS


def _say_columns(tables: list[Path], asked: str | None) -> None:
    """Say which column of the tables is read, once for all that have the same."""
    if asked and not tables:
        say("--text-column has no effect: no file is a table")
    found: dict[str, list[Path]] = {}
    for path in tables:
        found.setdefault(text_column_of(path, asked), []).append(path)
    for column, (first, *others) in found.items():
        beside = f" and {number_of(len(others), 'other table')}" if others else ""
        say(f"{first}{beside}: text = `{column}`; each row is a document")


def _expand(name: str) -> list[Path]:
    """The files that a name leads to."""
    path = Path(name)
    if is_url(name):
        found = find_files(name, TEXT_ENDINGS)
        what, hint = f"`{name}` leads to no text file.", "Check the name, or give a pattern: s3://bucket/*.txt"
    elif path.is_dir():
        found = sorted(child for child in path.iterdir() if child.name.endswith(TEXT_ENDINGS))
        what, hint = f"The folder `{name}` holds no text files.", f"Name the files: {name}/*"
    else:
        found = [path] if path.exists() else sorted(map(Path, glob.glob(name, recursive=True)))
        what, hint = f"There is no text file `{name}`.", "Check the name, or give a pattern such as corpus/*.txt."
    if not found:
        raise UserError(what, hint)
    return [child for child in found if is_url(child) or (child.exists() and not child.is_dir())]


def read_lines(path: Path, text_column: str | None = None) -> Iterator[str]:
    """Yield the lines of a UTF-8 file, or of the texts of a table, stripped."""
    return chain.from_iterable(_rows(path, text_column)) if _is_table(path) else map(str.strip, lines_of(path))


def read_all_lines(paths: Iterable[Path], text_column: str | None = None) -> Iterator[str]:
    """Yield the lines of several files that are not blank."""
    return filter(None, chain.from_iterable(read_lines(path, text_column) for path in paths))


def _rows(path: Path, text_column: str | None) -> Iterator[list[str]]:
    """The lines of each row's text. Raises UserError if one is a list or an object, or too long."""
    with quietly():  # what is odd about the file was said when it was found
        column, (_, rows) = text_column_of(path, text_column), stream_table(path)
    for number, cells in rows:
        cell = cells.get(column)
        if isinstance(cell, list | dict):
            shape = "a list" if isinstance(cell, list) else "an object"
            what = f"{place_of(path, number)} has {shape} where a text should be."
            raise UserError(what, "Give another column: --text-column COLUMN")
        lines = [line.strip() for line in as_text(cell).split("\n")]
        if max(map(len, lines)) > LONGEST_LINE:
            what = f"{place_of(path, number)} has a line of more than {LONGEST_LINE / 1e6:.0f} MB."
            raise UserError(what, "Put line breaks into the text, such as after each sentence or paragraph.")
        yield lines


def sentences_of(line: str) -> Iterator[str]:
    """The sentences of a line, by its punctuation."""
    bounds = (0, *(end.end() for end in SENTENCE_END.finditer(line)), len(line))
    return (line[start:end].strip() for start, end in pairwise(bounds))


def read_documents(
    paths: Iterable[Path],
    join_files: bool = False,
    blanks_separate: bool = True,
    split_sentences: bool = False,
    text_column: str | None = None,
) -> Iterator[list[str]]:
    """Yield the documents, each a list of non-blank lines; a blank line ends one, or the end of a file unless `join_files`.

    BERT's original joins files; ELECTRA's may read each file as one document, whose blank lines do not separate. With
    `split_sentences`, a line is cut into its sentences, which the original expects a line each.
    """
    document: list[str] = []
    for path in paths:
        if _is_table(path):
            lines = _one_document_a_row(path, text_column)
        else:
            lines = read_lines(path) if blanks_separate else filter(None, read_lines(path))
        for line in chain(lines, () if join_files else ("",)):
            if line:
                document += sentences_of(line) if split_sentences else [line]
            elif document:
                yield document
                document = []
    if document:
        yield document


def _one_document_a_row(path: Path, text_column: str | None) -> Iterator[str]:
    """The lines of a table's texts, a blank one after each row and nowhere else; rows without a text are counted."""
    rows, blank = 0, 0
    for lines in _rows(path, text_column):
        text = [line for line in lines if line]
        rows, blank = rows + 1, blank + (not text)
        yield from (*text, "")
    if blank:
        say(f"{path}: {blank:,} of {rows:,} rows have no text and are left out")
