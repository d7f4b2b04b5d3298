"""Sentences of tagged words, read from columns as CoNLL's files have them, or from lists."""

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from bertcli import number_of, say
from bertcli.data.labelled.examples import Sentences
from bertcli.data.text.files import ending_of, lines_of
from bertcli.data.text.tables import LIST_ENDINGS, place_of, read_table, stream_table
from bertcli.errors import UserError

CONLL_U = ".conllu"
TAG_ENDINGS = (".conll", CONLL_U, ".iob", ".iob2", ".bio")  # words with their tags in columns
WORD_LISTS, TAG_LISTS = ("tokens", "words"), ("tags", "ner_tags", "labels", "pos_tags", "upos")
DOCUMENT = "-DOCSTART-"  # begins a document, and is no word of it
TAG = re.compile(r"O|[BIESLUM](-.+)?")  # of an entity
TYPED = re.compile(r"O|[BIESLUM]-.+")
FIELDS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")  # the columns of CoNLL-U
NO_WORD = re.compile(r"\d+[-.]\d+")  # the number of several words that are written as one, or of one that is left out
LINES_TO_TELL = 1000  # what the columns of a file are


class Columns(NamedTuple):
    """Where the words and their tags stand; the first word of the file has `width` columns."""

    width: int
    word: int = 0
    tag: int = -1
    is_conll_u: bool = False

    @property
    def names(self) -> list[str]:
        """What `--label` calls each column: by its name in CoNLL-U, else by its number."""
        return list(FIELDS) if self.is_conll_u else [str(number + 1) for number in range(self.width)]

    @property
    def shown(self) -> str:
        """The columns, in words."""
        if self.is_conll_u:
            return f"CoNLL-U; the column `form` is the word, `{FIELDS[self.tag]}` the tag"
        return f"the first column is the word, {'the last' if self.tag < 0 else f'column {self.tag + 1}'} the tag"


def sentences_of_hub(rows: Any) -> Sentences:
    """The sentences of a table of the Hub, whose tags are numbers."""
    names = rows.features["ner_tags"].feature.names
    tags = [[names[tag] for tag in row] for row in rows["ner_tags"]]
    return Sentences([list(row) for row in rows["tokens"]], tags, origin="the Hub")


def are_of_entities(tags: Iterable[str]) -> bool:
    """Whether these are tags of entities, by one that begins or is outside of one; else they say something of each word."""
    known = set(tags)
    return any(map(TYPED.fullmatch, known)) or all(map(TAG.fullmatch, known))


def list_columns(first: dict[str, Any], label: str | None = None) -> tuple[str, str] | None:
    """The columns of a table that hold lists of words and of their tags, or of `label`, if its first row has both."""
    lists = [name for name, cell in first.items() if isinstance(cell, list)]
    known = WORD_LISTS, (label,) if label else TAG_LISTS
    words, tags = (next((name for name in names if name in lists), None) for names in known)
    return (words, tags) if words and tags else None


def has_columns_of_words(path: Path) -> bool:
    """Whether a file has a word and its tag on each line, by its ending or by its first lines."""
    ending = ending_of(path)
    if ending not in (".txt", ".tsv"):
        return ending in TAG_ENDINGS
    text = "".join(islice(lines_of(path), LINES_TO_TELL))[:100_000].strip()
    lines = [line.split() for line in text.split("\n") if DOCUMENT not in line]
    return _are_tagged(lines) or (ending == ".tsv" and _are_sentences(lines))


def _are_tagged(lines: list[list[str]]) -> bool:
    """Whether each line ends with a tag; but for the first, a header, where blank lines part the others."""
    tagged = [not fields or (len(fields) > 1 and bool(TAG.fullmatch(fields[-1]))) for fields in lines]
    full = sum(map(bool, lines))
    return full > 0 and all(tagged[1:-1] or tagged) and (tagged[0] or (full > 2 and [] in lines))


def _are_sentences(lines: list[list[str]]) -> bool:
    """Whether all lines have as many cells, blank lines stand between them as between sentences, and the first is no header."""
    words = [cells for cells in lines[:-1] if cells]
    blank = len(lines[:-1]) - len(words)
    is_even = len(set(map(len, words))) == 1 < len(words[0])
    return is_even and blank > 1 and len(words) < 100 * blank and words[0][-1] in [cells[-1] for cells in words[1:]]


def first_tags(path: Path, label: str | None = None) -> set[str]:
    """The tags of the first lines, or of the first row with lists."""
    if ending_of(path) in LIST_ENDINGS:
        first = next(stream_table(path)[1])[1]
        return set(map(str, first[columns[1]])) if (columns := list_columns(first, label)) else set()
    at = columns_of(path, label).tag
    cells = (_cells(line) for line in islice(lines_of(path), LINES_TO_TELL))
    return {own[at] for own in cells if own[0] not in ("", DOCUMENT) and len(own) > max(1, at)}


def read_sentences(path: Path, label: str | None = None) -> Sentences:
    """Read words and tags from a table with lists of both, or from columns; `label` chooses the tags.

    Raises UserError naming the wrong line.
    """
    if ending_of(path) not in LIST_ENDINGS:
        return read_conll(path, label=label)
    rows = read_table(path)
    columns = list_columns(rows.cells[0], label)
    if columns is None:
        what = f"`{path}` has no lists of words and {f'of `{label}`' if label else 'tags'}."
        raise UserError(what, 'Write lines such as {"tokens": ["Rome"], "%s": ["B-LOC"]}.' % (label or "tags"))
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


def columns_of(path: Path, label: str | None = None) -> Columns:
    """Where the words and their tags stand: in the first column and the last, of CoNLL-U in `form` and `upos`.

    `label` is another column of tags: its number, from 1, or its name in CoNLL-U. Raises UserError if there is none.
    """
    words = (own for own in map(_cells, lines_of(path)) if own[0][:1] not in ("", "#", DOCUMENT[0]))
    first = next(words, [""])
    is_conll_u = ending_of(path) == CONLL_U or (len(first) == len(FIELDS) and first[0].partition("-")[0] == "1")
    found = Columns(len(FIELDS), 1, 3, is_conll_u) if is_conll_u else Columns(len(first) * bool(first[0]))
    if label is None:
        return found
    if label.lower() not in found.names:
        known = ", ".join(found.names[found.word + 1 :])
        raise UserError(f"`{path}` has no column `{label}`.", f"Give --label the column of the tags, of {known}.")
    return found._replace(tag=found.names.index(label.lower()))


def read_conll(path: Path, may_lack_tags: bool = False, label: str | None = None) -> Sentences:
    """Read words and tags: a word a line, in the columns of `columns_of`, a blank line after each sentence.

    Columns are separated by tabs, else by spaces. Before a sentence, a line that begins with # and does not have the columns
    of a word is a comment. Raises UserError naming the line with more or fewer columns than the first word.
    """
    words: list[list[str]] = []
    tags: list[list[str]] = []
    places: list[str] = []
    once: dict[str, str] = {}  # each word and each tag is held once
    columns, is_inside = columns_of(path, label), False
    width = columns.width
    for number, cells in _lines_of_cells(path, columns):
        if cells[0] in ("", DOCUMENT):
            is_inside = False
            continue
        width = width or len(cells)
        if len(cells) != width or width + may_lack_tags < 2:
            what = f"`{path}` line {number} has {number_of(len(cells), 'column')}, not {max(width, 2)}."
            raise UserError(what, "Write a word and its tag on each line, and a blank line after each sentence.")
        if not is_inside:
            places.append(place_of(path, number))
            words.append([])
            tags.append([])
        is_inside = True
        word, tag = cells[columns.word], cells[columns.tag] if width > 1 else "O"
        words[-1].append(once.setdefault(word, word))
        tags[-1].append(once.setdefault(tag, tag))
    if not words:
        raise UserError(f"`{path}` holds no sentences.", "Check the file.")
    return Sentences(words, tags if width > 1 else None, origin=str(path), places=places)


def _lines_of_cells(path: Path, columns: Columns) -> Iterator[tuple[int, list[str]]]:
    """The number and the columns of each line; comments, and lines of CoNLL-U that are no words, are counted and left out."""
    is_inside, comments, others = False, 0, 0
    for number, line in enumerate(lines_of(path), start=1):
        cells = _cells(line)
        is_other = columns.is_conll_u or 1 < len(cells) != columns.width > 0
        if cells[0].startswith("#") and is_other and not is_inside:
            comments += 1
        elif columns.is_conll_u and NO_WORD.fullmatch(cells[0]):
            others += 1
        else:
            is_inside = cells[0] not in ("", DOCUMENT)
            yield number, cells
    if comments and not columns.is_conll_u:  # whose form has them
        say(f"{path}: {number_of(comments, 'comment')} left out")
    if others:
        say(f"{path}: {number_of(others, 'line')} with numbers such as 1-2 or 1.1 left out")


def _cells(line: str) -> list[str]:
    return re.split(r"\t" if "\t" in line else r" +", line.strip(" \t\r\n"))
