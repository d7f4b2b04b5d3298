"""Sentences of tagged words, read from columns as CoNLL's files have them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from bertcli.data.documents import read_text
from bertcli.data.task_files import data_folder, load_from_hub, split_file
from bertcli.errors import UserError
from bertcli.tasks.task import Task

DOCUMENT = "-DOCSTART-"  # begins a document, and is no word of it


@dataclass(frozen=True)
class Sentences:
    """The words of each sentence, with a tag each where they are known, as they stand in the file."""

    words: list[list[str]]
    tags: list[list[str]] | None
    origin: str

    def __len__(self) -> int:
        """Number of sentences."""
        return len(self.words)

    def take(self, rows: list[int]) -> Sentences:
        """The chosen sentences."""
        tags = None if self.tags is None else [self.tags[row] for row in rows]
        return replace(self, words=[self.words[row] for row in rows], tags=tags)


def load_sentences(task: Task, split: str, data_dir: str | None) -> Sentences:
    """Load a split of a task whose words are tagged.

    Raises:
        UserError: if the data are not there or not in columns; RunError: if the Hub cannot be reached.
    """
    folder = data_folder(data_dir)
    if folder is not None:
        return read_conll(split_file(task, split, folder))
    rows = load_from_hub(task, split)
    names = rows.features["ner_tags"].feature.names
    tags = [[names[tag] for tag in row] for row in rows["ner_tags"]]
    return Sentences([list(row) for row in rows["tokens"]], tags, f"{task.hub[0]} on the Hub")


def read_conll(path: Path) -> Sentences:
    """Read words and tags: the first and the last column, a word a line, a blank line after each sentence.

    Columns stand apart by tabs, or by spaces where there are none.

    Raises:
        UserError: naming the line that has other columns than the first.
    """
    words: list[list[str]] = [[]]
    tags: list[list[str]] = [[]]
    width = 0
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        fields = re.split(r"\t" if "\t" in line else r" +", line.strip(" \r"))
        if not line.strip() or fields[0] == DOCUMENT:
            if words[-1]:
                words.append([])
                tags.append([])
            continue
        width = width or len(fields)
        if len(fields) != width or width < 2:
            raise UserError(
                f"`{path}` line {number} has {len(fields)} columns, not {max(width, 2)}.",
                "Write a word and its tag on each line, and a blank line after each sentence.",
            )
        words[-1].append(fields[0])
        tags[-1].append(fields[-1])
    if not words[-1]:
        words.pop()
        tags.pop()
    if not words:
        raise UserError(f"`{path}` holds no sentences.", "Check the file.")
    return Sentences(words, tags, str(path))
