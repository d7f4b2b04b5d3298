"""A split of a task, read and encoded: one function a kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from bertcli import say
from bertcli.config import FinetuneConfig
from bertcli.data.choice_features import ChoiceFeatures, encode_choices
from bertcli.data.conll import Sentences, read_conll, sentences_of_hub
from bertcli.data.own_file import own_task
from bertcli.data.own_splits import looks_like_file
from bertcli.data.span_features import SpanFeatures, WindowRules, encode_spans
from bertcli.data.squad import SpanExample, articles_of_hub, questions_of, read_squad, span_examples
from bertcli.data.tag_features import TagFeatures, encode_sentences
from bertcli.data.task_files import (
    TextExamples,
    data_folder,
    find_file,
    load_from_hub,
    read_official,
    split_file,
    texts_of_hub,
)
from bertcli.data.text_features import LABELS, TextFeatures, encode_texts, label_ids
from bertcli.data.tokenization import WordPiece
from bertcli.errors import UserError
from bertcli.tasks import get_task
from bertcli.tasks.task import Task

Features = TextFeatures | ChoiceFeatures | TagFeatures | SpanFeatures


@dataclass(frozen=True)
class Source:
    """Where a split comes from: the official files or the Hub, or the user's own files, which are read already."""

    task: Task
    data_dir: str | None = None
    own: dict[str, Any] | None = None  # split -> texts, sentences or articles
    seed: int = 0

    @property
    def own_file(self) -> bool:
        """Whether the data are the user's own."""
        return self.own is not None


@dataclass(frozen=True)
class Prepared:
    """A split as the model and the metric want it: texts, sentences or questions, by the kind of the task."""

    split: str
    texts: TextExamples | None = None
    sentences: Sentences | None = None
    questions: list[SpanExample] = field(default_factory=list)
    features: Features | None = None
    answers: dict[str, list[str]] = field(default_factory=dict)  # question -> true answers

    def __len__(self) -> int:
        """Number of examples, which may be less than the number of windows."""
        return len(self.texts or self.sentences or self.questions)

    @property
    def digest(self) -> str:
        """Of the examples, wherever they stand: another one where the data have changed."""
        texts = self.texts and (self.texts.texts, self.texts.pairs, self.texts.labels, self.texts.choices)
        sentences = self.sentences and (self.sentences.words, self.sentences.tags)
        questions = [(example.id, example.question, example.answer, len(example.words)) for example in self.questions]
        return sha256(repr((texts, sentences, questions)).encode("utf-8", "replace")).hexdigest()[:16]

    def take(self, rows: list[int]) -> Prepared:
        """The chosen examples, not encoded."""
        return replace(
            self,
            texts=self.texts and self.texts.take(rows),
            sentences=self.sentences and self.sentences.take(rows),
            questions=[self.questions[row] for row in rows] if self.questions else [],
            features=None,
        )


def check_options(config: FinetuneConfig) -> None:
    """Refuse options of own files for a task with a name, and the folder of official files for own ones.

    Raises:
        UserError: naming the option.
    """
    is_own = looks_like_file(config.task)
    options = ("data_dir",) if is_own else ("text", "text_pair", "label", "kind")
    if given := next((option for option in options if getattr(config, option)), None):
        whose = (
            f"of official files; `{config.task}` is your own"
            if is_own
            else f"for your own files, not for {config.task}"
        )
        raise UserError(f"--{given.replace('_', '-')} is {whose}.", "Leave it out.")


def find_source(
    name: str, data_dir: str | None, columns: dict[str, str | None], kind: Any = None, seed: int = 0, **own: Any
) -> Source:
    """The task of a name, or of own files; `own` says what `own_task` is to read of them."""
    if looks_like_file(name):
        task, parts = own_task(str(Path(name)), columns, kind, seed, **own)
        return Source(task, own=parts, seed=seed)
    task, folder = get_task(name), data_folder(data_dir)
    return Source(task, str(folder.resolve()) if folder else None, seed=seed)


def dev_splits(source: Source) -> list[str]:
    """The dev splits that are there: a second one, such as MNLI's mismatched, may be missing."""
    if source.own_file or source.data_dir is None:
        return ["dev"] if source.own_file else list(source.task.dev_splits)
    first, *others = source.task.dev_splits
    there = [split for split in others if find_file(source.task, split, Path(source.data_dir))]
    for split in set(others) - set(there):
        say(f"there is no {split} split in {source.data_dir}; scored without it")
    return [first, *there]


def read_split(source: Source, split: str, training: bool = False, limit: int | None = None) -> Prepared:
    """Read the examples of a split; with `limit`, as many as that, drawn by the seed."""
    kind, read = source.task.kind, _load(source, split)
    if kind == "span":
        questions = span_examples(read, training, source.task.with_impossible)
        prepared = Prepared(split, questions=questions, answers=true_answers(read))
    else:
        prepared = Prepared(split, sentences=read) if kind == "tag" else Prepared(split, texts=read)
    return prepared.take(_draw(len(prepared), limit, source.seed))


def _load(source: Source, split: str) -> Any:
    """The texts, sentences or articles of a split."""
    task = source.task
    if source.own is not None:
        return source.own[split]
    if source.data_dir is None:
        rows = load_from_hub(task, split)
        return OF_HUB[task.kind](rows) if task.kind in OF_HUB else texts_of_hub(task, split, rows)
    path = split_file(task, split, Path(source.data_dir))
    return READ[task.kind](path) if task.kind in READ else read_official(task, split, path)


READ: dict[str, Callable[[Path], Any]] = {"tag": read_conll, "span": read_squad}
OF_HUB: dict[str, Callable[[Any], Any]] = {"tag": sentences_of_hub, "span": articles_of_hub}


def true_answers(articles: list[dict[str, Any]]) -> dict[str, list[str]]:
    """The true answers of each question."""
    return {
        str(question["id"]): [answer["text"] for answer in question["answers"]]
        for _, question in questions_of(articles)
    }


def _draw(count: int, limit: int | None, seed: int) -> list[int]:
    if limit is None or limit >= count:
        return list(range(count))
    return sorted(int(row) for row in np.random.default_rng(seed).permutation(count)[:limit])


def encode_split(
    task: Task, read: Prepared, tokenizer: WordPiece, rules: WindowRules, training: bool = False
) -> Prepared:
    """Encode a split; what is cut is counted and said."""
    features = ENCODE[task.kind](task, read, tokenizer, rules, training)
    say(f"{read.split}: {_words(read, features)}")
    if features.truncated:
        inputs = len(features.sequences.lengths) if isinstance(features, ChoiceFeatures) else len(read)
        what = (
            f"questions longer than {rules.max_query_length} tokens" if read.questions
            else f"inputs longer than {rules.max_seq_length} tokens"
        )  # fmt: skip
        share = 100 * features.truncated / inputs
        say(f"{read.split}: {features.truncated:,} {what}, cut ({share:.1f} %)")
    return replace(read, features=features)


def _words(read: Prepared, features: Features) -> str:
    if read.texts is not None:
        return f"{len(read):,} examples from {read.texts.origin}"
    if read.sentences is not None:
        return f"{len(read):,} sentences, {len(features.lengths):,} windows from {read.sentences.origin}"
    return f"{len(read):,} questions, {len(features.lengths):,} windows"


def _encode_texts(task: Task, read: Prepared, tokenizer: WordPiece, rules: WindowRules, training: bool) -> Features:
    assert read.texts is not None
    return encode_texts(read.texts, tokenizer, rules.max_seq_length, LABELS[task.kind](read.texts, task))


def _encode_choices(task: Task, read: Prepared, tokenizer: WordPiece, rules: WindowRules, training: bool) -> Features:
    assert read.texts is not None
    return encode_choices(read.texts, tokenizer, rules.max_seq_length, label_ids(read.texts, task))


def _encode_sentences(task: Task, read: Prepared, tokenizer: WordPiece, rules: WindowRules, training: bool) -> Features:
    assert read.sentences is not None
    return encode_sentences(read.sentences, tokenizer, rules, task.labels)


def _encode_questions(task: Task, read: Prepared, tokenizer: WordPiece, rules: WindowRules, training: bool) -> Features:
    return encode_spans(read.questions, tokenizer, rules, training)


ENCODE: dict[str, Callable[[Task, Prepared, WordPiece, WindowRules, bool], Features]] = {
    "classify": _encode_texts,
    "regress": _encode_texts,
    "multilabel": _encode_texts,
    "choose": _encode_choices,
    "tag": _encode_sentences,
    "span": _encode_questions,
}
