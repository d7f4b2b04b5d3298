"""Sentences of tagged words, read from columns as CoNLL's files have them, or from lists."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bertcli import number_of, say
from bertcli.data.labelled.examples import Sentences
from bertcli.data.text.files import ending_of, lines_of
from bertcli.data.text.tables import LIST_ENDINGS, place_of, read_table
from bertcli.errors import UserError

TAG_ENDINGS = (".conll", ".iob", ".iob2", ".bio")  # words with their tags in columns
WORD_LISTS, TAG_LISTS = ("tokens", "words"), ("tags", "ner_tags", "labels")
DOCUMENT = "-DOCSTART-"  # begins a document, and is no word of it


def sentences_of_hub(rows: Any) -> Sentences:
    """The sentences of a table of the Hub, whose tags are numbers."""
    names = rows.features["ner_tags"].feature.names
    tags = [[names[tag] for tag in row] for row in rows["ner_tags"]]
    return Sentences([list(row) for row in rows["tokens"]], tags, origin="the Hub")


def list_columns(first: dict[str, Any]) -> tuple[str, str] | None:
    """The columns of a table that hold lists of words and of their tags, if its first row has both."""
    lists = [name for name, cell in first.items() if isinstance(cell, list)]
    words, tags = (next((name for name in names if name in lists), None) for names in (WORD_LISTS, TAG_LISTS))
    return (words, tags) if words and tags else None


def read_sentences(path: Path) -> Sentences:
    """Read words and tags from a table with lists of both, or from columns. Raises UserError naming the wrong line."""
    if ending_of(path) not in LIST_ENDINGS:
        return read_conll(path)
    rows = read_table(path)
    columns = list_columns(rows.cells[0])
    if columns is None:
        what = f"`{path}` has no lists of words and tags."
        raise UserError(what, 'Write lines such as {"tokens": ["Rome"], "tags": ["B-LOC"]}.')
    words, tags = (list[Any](cells.get(name) for cells in rows.cells) for name in columns)
    places = [rows.place(row) for row in range(len(rows))]
    for place, pair in zip(places, zip(words, tags, strict=True), strict=True):
        _check_lists(place, *pair)
    full = [row for row, own in enumerate(words) if own]
    if len(full) < len(rows):
        say(f"{path}: {len(rows) - len(full):,} of {len(rows):,} rows have no words and are left out")
    return Sentences(words, tags, origin=str(path), places=places, skipped=len(rows) - len(full)).take(full)


def _check_lists(place: str, words: Any, tags: Any) -> None:
    if not isinstance(words, list) or not isinstance(tags, list) or len(words) != len(tags):
        raise UserError(f"{place} does not have one tag per word.", "Give two lists of the same length.")
    if not all(isinstance(value, str) for value in (*words, *tags)):
        raise UserError(f"{place} has a word or a tag that is no text.", "Write the names of the tags.")


def read_conll(path: Path, may_lack_tags: bool = False) -> Sentences:
    """Read words and tags: the first and the last column, a word a line, a blank line after each sentence.

    Columns are separated by tabs, else by spaces. Before a sentence, a line that begins with # and does not have the columns
    of a word is a comment. Raises UserError naming the line with more or fewer columns than the first word.
    """
    words: list[list[str]] = []
    tags: list[list[str]] = []
    places: list[str] = []
    once: dict[str, str] = {}  # each word and each tag is held once
    width, is_inside = 0, False
    for number, (word, *others) in _lines_of_cells(path):
        if word in ("", DOCUMENT):
            is_inside = False
            continue
        width = width or 1 + len(others)
        if not (others or may_lack_tags) or 1 + len(others) != width:
            what = f"`{path}` line {number} has {number_of(1 + len(others), 'column')}, not {max(width, 2)}."
            raise UserError(what, "Write a word and its tag on each line, and a blank line after each sentence.")
        if not is_inside:
            places.append(place_of(path, number))
            words.append([])
            tags.append([])
        is_inside = True
        words[-1].append(once.setdefault(word, word))
        tags[-1].append(once.setdefault(others[-1], others[-1]) if others else "O")
    if not words:
        raise UserError(f"`{path}` holds no sentences.", "Check the file.")
    return Sentences(words, tags if width > 1 else None, origin=str(path), places=places)


def _lines_of_cells(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The number and the columns of each line; comments are counted and left out."""
    width = next((len(cells) for cells in map(_cells, lines_of(path)) if cells[0][:1] not in ("", "#", DOCUMENT[0])), 0)
    is_inside, comments = False, 0
    for number, line in enumerate(lines_of(path), start=1):
        cells = _cells(line)
        if cells[0].startswith("#") and 1 < len(cells) != width > 0 and not is_inside:
            comments += 1
            continue
        is_inside = cells[0] not in ("", DOCUMENT)
        yield number, cells
    if comments:
        say(f"{path}: {number_of(comments, 'comment')} left out")


def _cells(line: str) -> list[str]:
    return re.split(r"\t" if "\t" in line else r" +", line.strip(" \t\r\n"))
