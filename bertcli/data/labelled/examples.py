"""The examples of a split as they stand in their files: columns with an entry each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import Any, ClassVar, Self
from unicodedata import category

from bertcli.data.labelled.stored_column import StoredColumn

LONGEST_SHOWN = 60  # characters of a text in a command or in a card


@dataclass(frozen=True, kw_only=True)
class Examples:
    """What all forms of examples have; each adds its own columns, and a column that a split lacks is None."""

    unit: ClassVar[str] = "example"
    answer_column: ClassVar[str] = ""  # the column of the right answers, where that is all that tells them
    origin: str
    places: Sequence[str] | None = None  # file and line of each, for the user's own files
    skipped: int = 0  # rows of the file that could not be used

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    @property
    def columns(self) -> dict[str, list[Any] | StoredColumn]:
        """The columns that there are, by their names."""
        return {name: column for name, column in vars(self).items() if isinstance(column, list | StoredColumn)}

    @property
    def is_labelled(self) -> bool:
        """Whether the right answers are known."""
        return not self.answer_column or getattr(self, self.answer_column) is not None

    def without_answers(self) -> Self:
        """The inputs alone."""
        return replace(self, **{self.answer_column: None}) if self.answer_column else self  # type: ignore[arg-type]

    def answer(self, row: int) -> str:
        """The right answer of an example, in words, where it is known."""
        return ""

    def inputs(self) -> Iterable[Any]:
        """What is equal for two examples with the same input."""
        return ()

    def request(self) -> list[tuple[str, str]]:
        """The first example as options of `bert predict`, each with its text."""
        return []

    def take(self, rows: Sequence[int]) -> Self:
        """The chosen examples."""
        return replace(self, **{name: _taken(column, rows) for name, column in self.columns.items()})  # type: ignore[arg-type]

    def size(self, row: int) -> int:
        """The characters of an example, roughly."""
        return sum(len(str(column[row])) for column in self.columns.values())

    def place(self, row: int) -> str:
        """Where an example stands, for messages."""
        return self.places[row] if self.places is not None else f"`{self.origin}` {self.unit} {row + 1}"

    @cached_property
    def digest(self) -> str:
        """A digest of the contents, whatever the path, to detect changed data."""
        hashed = sha256()
        for part in _spelled({name: column for name, column in self.columns.items() if name != "places"}):
            hashed.update(part.encode("utf-8", "replace"))
        return hashed.hexdigest()[:16]


@dataclass(frozen=True)
class TextExamples(Examples):
    """Texts, or pairs of texts, with their labels as they stand in the file."""

    answer_column = "labels"
    texts: Sequence[str]
    pairs: Sequence[str] | None = None
    labels: list[str] | None = None
    choices: Sequence[list[str]] | None = None  # possible continuations of each text, for multiple choice

    def answer(self, row: int) -> str:
        """The label of an example."""
        return self.labels[row] if self.labels else ""

    def request(self) -> list[tuple[str, str]]:
        """The first text, and the second of its pair, or its choices."""
        choices = [("choice", each) for each in self.choices[0]] if self.choices else []
        return [("text", self.texts[0]), *([("text_pair", self.pairs[0])] if self.pairs else choices)]

    def inputs(self) -> Iterable[Any]:
        """Text, second text and choices of each example."""
        return zip(self.texts, self.pairs or self.texts, map(str, self.choices or self.texts), strict=True)


@dataclass(frozen=True)
class Sentences(Examples):
    """The words of each sentence, with a tag each where they are known, as they stand in the file."""

    unit, answer_column = "sentence", "tags"
    words: list[list[str]]
    tags: list[list[str]] | None = None

    def answer(self, row: int) -> str:
        """The tags of a sentence."""
        return " ".join(self.tags[row]) if self.tags else ""

    def request(self) -> list[tuple[str, str]]:
        """The first sentence."""
        return [("text", " ".join(self.words[0]))]

    def inputs(self) -> Iterable[Any]:
        """The words of each sentence."""
        return map(tuple, self.words)


def is_blank(text: str) -> bool:
    """Whether a text has nothing but spaces and characters that are not seen, such as the space of no width."""
    return all(char.isspace() or category(char) in ("Cc", "Cf") for char in text)


def shortened(text: str) -> str:
    """The first words of a text, on one line, for a command or a card."""
    text = " ".join(text.split())
    return text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN].rpartition(" ")[0] or text[:LONGEST_SHOWN]


def _taken(column: list[Any] | StoredColumn, rows: Sequence[int]) -> list[Any] | StoredColumn:
    return column.take(rows) if isinstance(column, StoredColumn) else [column[row] for row in rows]


def _spelled(columns: dict[str, list[Any] | StoredColumn]) -> Iterator[str]:
    """The parts of the list of names and columns as Python writes it."""
    for number, (name, column) in enumerate(columns.items()):
        yield f"{', ' if number else '['}({name!r}, ["
        yield from (f"{', ' if row else ''}{value!r}" for row, value in enumerate(column))
        yield "])"
    yield "]"


def join_examples(parts: Iterable[TextExamples], is_stored: bool) -> TextExamples:
    """Parts of a split, with the same columns, put together; with `is_stored`, all but the labels in a file."""
    columns: dict[str, Any] = {}
    once: dict[str, str] = {}  # each label is held once
    skipped = 0
    for part in parts:
        skipped += part.skipped
        for name, column in part.columns.items():
            in_file = is_stored and name != "labels"
            values = [once.setdefault(label, label) for label in column] if name == "labels" else column
            columns.setdefault(name, StoredColumn() if in_file else []).extend(values)
    return TextExamples(**columns, origin=part.origin, skipped=skipped)


def text_examples(columns: dict[str, list[str]], origin: str) -> TextExamples:
    """Put columns together; `choice_start` begins each of `choice0`, `choice1` ..."""
    endings = [columns[key] for key in columns if key.removeprefix("choice").isdigit()]
    starts = columns.get("choice_start", [""] * len(columns["text"]))
    choices = [[f"{start} {ending}".strip() for ending in row] for start, *row in zip(starts, *endings, strict=True)]
    texts, pairs, labels = columns["text"], columns.get("text_pair"), columns.get("label")
    return TextExamples(texts, pairs, labels, choices if endings else None, origin=origin)
