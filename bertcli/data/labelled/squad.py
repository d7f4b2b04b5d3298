"""Questions with contexts, read from SQuAD's JSON as run_squad.py reads them."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate
from operator import index
from pathlib import Path
from typing import Any, ClassVar

from bertcli import say
from bertcli.data.labelled.examples import Examples
from bertcli.data.text.files import ending_of, read_text
from bertcli.data.text.tables import LIST_ENDINGS, json_value, read_table, stream_table
from bertcli.errors import UserError

SEPARATORS = " \t\r\n\u202f"  # run_squad.py: a no-break space does not separate words
ROW = '{"question": "Who?", "context": "Ada wrote it.", "answers": {"text": ["Ada"], "answer_start": [0]}}'


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


@dataclass(frozen=True)
class Articles(Examples):
    """Articles as SQuAD's JSON has them, from which questions are made for training or for scoring."""

    unit: ClassVar[str] = "context"
    articles: list[dict[str, Any]]


@dataclass(frozen=True)
class Questions(Examples):
    """Questions about contexts, and the true answers of each by its id."""

    unit: ClassVar[str] = "question"
    asked: list[SpanExample]
    answers: dict[str, list[str]]

    def inputs(self) -> Iterator[Any]:
        """The question and the context of each."""
        return ((each.question, *each.words) for each in self.asked)

    def request(self) -> list[tuple[str, str]]:
        """The first question, and its context."""
        return [("question", self.asked[0].question), ("context", " ".join(self.asked[0].words))]

    def answer(self, row: int) -> str:
        """The answer to a question."""
        return self.asked[row].answer or "(no answer)"


def articles_of_hub(rows: Iterable[Any]) -> list[dict[str, Any]]:
    """Rows of the Hub as the articles of SQuAD's JSON, one for each."""
    read = (_of_row(row, row["id"]) for row in rows)
    return [{"paragraphs": [{"context": context, "qas": [question]}]} for context, question in read]


def _of_row(row: Any, id_: Any) -> tuple[str, dict[str, Any]]:
    """A context and its question. Raises KeyError, TypeError or ValueError if a row has none, or not its answers."""
    pairs = zip(row["answers"]["text"], row["answers"]["answer_start"], strict=True)
    answers = [{"text": text, "answer_start": index(start)} for text, start in pairs]
    _ = "".join([row["context"], row["question"], *(answer["text"] for answer in answers)])
    return row["context"], {"id": id_, "question": row["question"], "answers": answers, "is_impossible": not answers}


def is_whole(path: Path) -> bool:
    """Whether a file is one JSON value in SQuAD's form."""
    whole = json_value(read_text(path)) if ending_of(path) == ".json" else None
    return isinstance(whole, dict) and isinstance(whole.get("data"), list)


def has_rows(path: Path) -> bool:
    """Whether a file has rows of a question, its context and its answers, as `datasets` writes them."""
    if ending_of(path) not in LIST_ENDINGS or is_whole(path):
        return False
    first = next(stream_table(path)[1])[1]
    return {"question", "context"} <= first.keys() and isinstance(first.get("answers"), dict)


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Read rows of questions as articles, one for each context. Raises UserError at the first that is none."""
    table = read_table(path)
    contexts: dict[str, list[dict[str, Any]]] = {}
    for row, cells in enumerate(table.cells):
        try:
            context, question = _of_row(cells, cells.get("id", str(table.numbers[row])))
        except (KeyError, TypeError, ValueError):
            what = f"{table.place(row)} is not a question with its context and answers."
            raise UserError(what, f"Write lines such as {ROW}") from None
        contexts.setdefault(context, []).append(question)
    return [{"paragraphs": [{"context": context, "qas": asked}]} for context, asked in contexts.items()]


def read_squad(path: Path) -> list[dict[str, Any]]:
    """Read the articles of a file in SQuAD's form. Raises UserError if it is not."""
    place = f"`{path}`"
    try:
        articles = json.loads(read_text(path))["data"]
        for number, (context, question) in enumerate(questions_of(articles), 1):
            place = f"Question {number} of `{path}`"
            answers = question["answers"]
            _ = question["id"], "".join([context, question["question"], *(answer["text"] for answer in answers)])
            _ = [index(answer["answer_start"]) for answer in answers]
            place = f"`{path}` after question {number}"
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        hint = f"Give the official JSON file, or a .jsonl with lines such as {ROW}"
        raise UserError(f"{place} is not in the form of SQuAD ({error}).", hint) from None
    return list(articles)


def questions_of(articles: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The questions, each after its context."""
    for article in articles:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                yield paragraph["context"], question


def span_examples(articles: list[dict[str, Any]], training: bool, with_impossible: bool) -> list[SpanExample]:
    """Make examples as read_squad_examples does; training examples whose answer is not in the context are skipped.

    Raises UserError if a training question has no answer, or several, where it needs one; or none is left to train on.
    """
    made: list[SpanExample | None] = []
    for context, question in questions_of(articles):
        example = SpanExample(str(question["id"]), question["question"], split_words(context)[0])
        made.append(_with_answer(example, question, context, with_impossible) if training else example)
    examples = [example for example in made if example is not None]
    skipped = len(made) - len(examples)
    if skipped and not examples:
        raise UserError("No answer stands in its context.", "`answer_start` counts its characters from 0: correct it.")
    if skipped:
        say(f"skipped {skipped} of {len(made):,} questions: their answer is not found in the context")
    return examples


def true_answers(articles: list[dict[str, Any]]) -> dict[str, list[str]]:
    """The true answers of each question."""
    asked = (question for _, question in questions_of(articles))
    return {str(question["id"]): [answer["text"] for answer in question["answers"]] for question in asked}


@lru_cache(maxsize=1)  # the questions of a context follow each other
def split_words(context: str) -> tuple[list[str], list[int]]:
    """The words of a context, and for each character the word it belongs to (a separator: the word before)."""
    before = zip(f" {context}", context, strict=False)
    starts = (last in SEPARATORS and character not in SEPARATORS for last, character in before)
    return [word for word in re.split(f"[{SEPARATORS}]", context) if word], [count - 1 for count in accumulate(starts)]


def _with_answer(example: SpanExample, question: dict[str, Any], context: str, nullable: bool) -> SpanExample | None:
    if nullable and question.get("is_impossible"):
        return replace(example, is_impossible=True)
    if len(question["answers"]) != 1:
        what = f"The training question `{example.id}` has {len(question['answers'])} answers; it needs one."
        hint = 'Keep one; a question without any is marked "is_impossible": true, as those of squad_v2 are.'
        raise UserError(what, hint)
    answer, first = question["answers"][0]["text"], question["answers"][0]["answer_start"]
    word_of_character = split_words(context)[1]
    if first + len(answer) > len(word_of_character) or not answer:
        return None
    start, end = word_of_character[first], word_of_character[first + len(answer) - 1]
    if " ".join(answer.split()) not in " ".join(example.words[start : end + 1]):
        return None
    return replace(example, answer=answer, start_word=start, end_word=end)
