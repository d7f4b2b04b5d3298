"""Questions with contexts, read from SQuAD's JSON as run_squad.py reads them."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from operator import index
from pathlib import Path
from typing import Any

from bertcli.data.documents import read_text
from bertcli.data.task_files import data_folder, load_from_hub, split_file
from bertcli.errors import UserError
from bertcli.tasks.task import Task

logger = logging.getLogger("bertcli")
SEPARATORS = frozenset(" \t\r\n\u202f")  # run_squad.py: a no-break space does not separate words


@dataclass(frozen=True)
class SpanExample:
    """A question, the words of its context, and the answer as words of it where it is known."""

    id: str
    question: str
    words: list[str]
    answer: str = ""
    start_word: int = -1
    end_word: int = -1
    is_impossible: bool = False


def load_squad(task: Task, split: str, data_dir: str | None) -> list[dict[str, Any]]:
    """Load a split as the articles of SQuAD's JSON.

    Raises:
        UserError: if the file is missing or is not in SQuAD's form.
    """
    folder = data_folder(data_dir)
    if folder is None:
        rows = load_from_hub(task, "validation" if split == "dev" else split)
        return [{"title": row["title"], "paragraphs": [_paragraph(row)]} for row in rows]
    return read_squad(split_file(task, split, folder))


def read_squad(path: Path) -> list[dict[str, Any]]:
    """Read the articles of a file in SQuAD's form.

    Raises:
        UserError: if it is not.
    """
    try:
        articles = json.loads(read_text(path))["data"]
        for context, question in _questions(articles):
            answers = question["answers"]
            _ = question["id"], "".join([context, question["question"], *(answer["text"] for answer in answers)])
            _ = [index(answer["answer_start"]) for answer in answers]
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise UserError(f"`{path}` is not in the form of SQuAD ({error}).", "Give the official JSON file.") from None
    return list(articles)


def _paragraph(row: dict[str, Any]) -> dict[str, Any]:
    answers = [
        {"text": t, "answer_start": s}
        for t, s in zip(row["answers"]["text"], row["answers"]["answer_start"], strict=True)
    ]
    question = {"id": row["id"], "question": row["question"], "answers": answers, "is_impossible": not answers}
    return {"context": row["context"], "qas": [question]}


def _questions(articles: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    for article in articles:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                yield paragraph["context"], question


def span_examples(articles: list[dict[str, Any]], training: bool, with_impossible: bool) -> list[SpanExample]:
    """Make examples as read_squad_examples does.

    For training, an answer that is not found among the words of its context is skipped, and counted.

    Raises:
        UserError: if a training question has no answer, or several, where it needs one; or none is left to train on.
    """
    examples, skipped, cache = [], 0, {"": ([""], [0])}
    for context, question in _questions(articles):
        if context not in cache:
            cache = {context: split_words(context)}
        words, word_of_character = cache[context]
        example = SpanExample(str(question["id"]), question["question"], words)
        if training:
            made = _with_answer(example, question, word_of_character, with_impossible)
            skipped += made is None
            if made is None:
                continue
            example = made
        examples.append(example)
    if skipped and not examples:
        raise UserError("No answer stands in its context.", "`answer_start` counts its characters from 0: correct it.")
    if skipped:
        logger.info("skipped %d of %s questions: their answer does not stand in the context as words", skipped,
                    f"{skipped + len(examples):,}")  # fmt: skip
    return examples


def split_words(context: str) -> tuple[list[str], list[int]]:
    """The words of a context, and for each character the word it belongs to (a separator: the word before)."""
    words: list[str] = []
    word_of_character = []
    fresh = True
    for character in context:
        if character in SEPARATORS:
            fresh = True
        elif fresh:
            words.append(character)
            fresh = False
        else:
            words[-1] += character
        word_of_character.append(len(words) - 1)
    return words, word_of_character


def _with_answer(
    example: SpanExample, question: dict[str, Any], word_of_character: list[int], with_impossible: bool
) -> SpanExample | None:
    if with_impossible and question.get("is_impossible"):
        return SpanExample(example.id, example.question, example.words, is_impossible=True)
    if len(question["answers"]) != 1:
        raise UserError(
            f"The training question `{example.id}` has {len(question['answers'])} answers; it needs one.",
            'Keep one; a question without any is marked "is_impossible": true, as those of squad_v2 are.',
        )
    answer = question["answers"][0]
    first = answer["answer_start"]
    if first + len(answer["text"]) > len(word_of_character) or not answer["text"]:
        return None
    start, end = word_of_character[first], word_of_character[first + len(answer["text"]) - 1]
    if " ".join(answer["text"].split()) not in " ".join(example.words[start : end + 1]):
        return None
    return SpanExample(example.id, example.question, example.words, answer["text"], start, end)
