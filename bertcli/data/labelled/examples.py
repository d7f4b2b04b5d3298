"""The examples of a split as they stand in their files: columns with an entry each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import Any, ClassVar, Self


@dataclass(frozen=True, kw_only=True)
class Examples:
    """What all forms of examples have; each adds its own columns, and a column that a split lacks is None."""

    unit: ClassVar[str] = "example"
    origin: str
    places: list[str] | None = None  # file and line of each, for the user's own files
    skipped: int = 0  # rows of the file that could not be used

    def __len__(self) -> int:
        return len(next(iter(self._columns.values())))

    @property
    def _columns(self) -> dict[str, list[object]]:
        return {name: column for name, column in vars(self).items() if isinstance(column, list)}

    @property
    def is_labelled(self) -> bool:
        """Whether the right answers are known."""
        return True

    def answer(self, row: int) -> str:
        """The right answer of an example, in words, where it is known."""
        return ""

    def inputs(self) -> Iterable[Any]:
        """What is equal for two examples with the same input."""
        return ()

    def request(self) -> dict[str, str]:
        """The first example as options of `bert predict`; nothing where it does not fit into one line."""
        return {}

    def take(self, rows: list[int]) -> Self:
        """The chosen examples."""
        return replace(self, **{name: [column[row] for row in rows] for name, column in self._columns.items()})  # type: ignore[arg-type]

    def place(self, row: int) -> str:
        """Where an example stands, for messages."""
        return self.places[row] if self.places is not None else f"`{self.origin}` {self.unit} {row + 1}"

    @cached_property
    def digest(self) -> str:
        """A digest of the contents, wherever they stand, by which changed data are known."""
        contents = [(name, column) for name, column in self._columns.items() if name != "places"]
        return sha256(repr(contents).encode("utf-8", "replace")).hexdigest()[:16]


@dataclass(frozen=True)
class TextExamples(Examples):
    """Texts, or pairs of texts, with their labels as they stand in the file."""

    texts: list[str]
    pairs: list[str] | None = None
    labels: list[str] | None = None
    choices: list[list[str]] | None = None  # possible continuations of each text, for multiple choice

    @property
    def is_labelled(self) -> bool:
        """Whether the labels are known."""
        return self.labels is not None

    def answer(self, row: int) -> str:
        """The label of an example."""
        return self.labels[row] if self.labels else ""

    def request(self) -> dict[str, str]:
        """The first text, and the second of its pair."""
        pair = {"text_pair": self.pairs[0]} if self.pairs else {}
        return {} if self.choices else {"text": self.texts[0], **pair}

    def inputs(self) -> Iterable[Any]:
        """Text, second text and choices of each example."""
        return zip(self.texts, self.pairs or self.texts, map(str, self.choices or self.texts), strict=True)


@dataclass(frozen=True)
class Sentences(Examples):
    """The words of each sentence, with a tag each where they are known, as they stand in the file."""

    unit: ClassVar[str] = "sentence"
    words: list[list[str]]
    tags: list[list[str]] | None = None

    @property
    def is_labelled(self) -> bool:
        """Whether the tags are known."""
        return self.tags is not None

    def answer(self, row: int) -> str:
        """The tags of a sentence."""
        return " ".join(self.tags[row]) if self.tags else ""

    def request(self) -> dict[str, str]:
        """The first sentence."""
        return {"text": " ".join(self.words[0])}

    def inputs(self) -> Iterable[Any]:
        """The words of each sentence."""
        return map(tuple, self.words)


def text_examples(columns: dict[str, list[str]], origin: str) -> TextExamples:
    """Put columns together; `choice_start` begins each of `choice0`, `choice1` ..."""
    endings = [columns[key] for key in columns if key.removeprefix("choice").isdigit()]
    starts = columns.get("choice_start", [""] * len(columns["text"]))
    choices = [[f"{start} {ending}".strip() for ending in row] for start, *row in zip(starts, *endings, strict=True)]
    texts, pairs, labels = columns["text"], columns.get("text_pair"), columns.get("label")
    return TextExamples(texts, pairs, labels, choices if endings else None, origin=origin)
