"""A split of a task, read and encoded: one function a kind."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from bertcli.data.choice_features import ChoiceFeatures, encode_choices
from bertcli.data.conll import Sentences, load_sentences, read_conll
from bertcli.data.own_file import looks_like_file, task_of_file
from bertcli.data.span_features import SpanFeatures, WindowRules, encode_spans
from bertcli.data.squad import SpanExample, load_squad, span_examples
from bertcli.data.tag_features import TagFeatures, encode_sentences
from bertcli.data.task_files import TextExamples, data_folder, load_text_examples, read_table, stratified_split
from bertcli.data.text_features import LABELS, TextFeatures, encode_texts, label_ids
from bertcli.data.tokenization import WordPiece
from bertcli.tasks import get_task
from bertcli.tasks.task import Task

logger = logging.getLogger("bertcli")
DEV_SHARE = 0.1  # of a user's file that comes without a dev set
Features = TextFeatures | ChoiceFeatures | TagFeatures | SpanFeatures


@dataclass(frozen=True)
class Source:
    """Where a split comes from: the official files or the Hub, or a part of the user's own file."""

    task: Task
    data_dir: str | None = None
    own_file: bool = False
    seed: int = 0
    whole_file: bool = False  # to be scored, not to be split for training


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

    def take(self, rows: list[int]) -> Prepared:
        """The chosen examples, not encoded."""
        return replace(
            self,
            texts=self.texts and self.texts.take(rows),
            sentences=self.sentences and self.sentences.take(rows),
            questions=[self.questions[row] for row in rows] if self.questions else [],
            features=None,
        )


def find_source(
    name: str, data_dir: str | None, columns: dict[str, str | None], kind: Any = None, seed: int = 0
) -> Source:
    """The task of a name, or of a file."""
    if looks_like_file(name):
        return Source(task_of_file(name, columns, kind), own_file=True, seed=seed)
    task, folder = get_task(name), data_folder(data_dir)
    return Source(task, str(folder.resolve()) if folder else None)


def read_split(source: Source, split: str, training: bool = False, limit: int | None = None) -> Prepared:
    """Read the examples of a split; with `limit`, as many as that, drawn by the seed."""
    prepared = READ.get(source.task.kind, _read_texts)(source, split, training)
    return prepared.take(_draw(len(prepared), limit, source.seed))


def _read_texts(source: Source, split: str, training: bool) -> Prepared:
    texts = _own_texts(source, split) if source.own_file else load_text_examples(source.task, split, source.data_dir)
    return Prepared(split, texts)


def _own_texts(source: Source, split: str) -> TextExamples:
    columns = {key: str(value) for key, value in source.task.files.columns.items()}
    examples = read_table(Path(source.task.files.splits["train"]), columns)
    if source.task.kind != "multilabel":  # there, an empty label says that none of them fits
        examples = examples.take([row for row, label in enumerate(examples.labels or []) if label != ""])
    return examples.take(_own_rows(source, split, len(examples), examples.labels))


def _own_rows(source: Source, split: str, count: int, labels: list[str] | None) -> list[int]:
    """Which examples of the user's file make the split."""
    if source.whole_file:
        return list(range(count))
    stratify = labels if source.task.kind == "classify" else None
    return stratified_split(stratify, count, DEV_SHARE, source.seed)[0 if split == "train" else 1]


def _read_sentences(source: Source, split: str, training: bool) -> Prepared:
    if not source.own_file:
        return Prepared(split, sentences=load_sentences(source.task, split, source.data_dir))
    sentences = read_conll(Path(source.task.files.splits["train"]))
    return Prepared(split, sentences=sentences.take(_own_rows(source, split, len(sentences), None)))


def _read_questions(source: Source, split: str, training: bool) -> Prepared:
    articles = load_squad(source.task, split, source.data_dir)
    questions = span_examples(articles, training, source.task.name == "squad_v2")
    return Prepared(split, questions=questions, answers=true_answers(articles))


READ: dict[str, Callable[[Source, str, bool], Prepared]] = {"tag": _read_sentences, "span": _read_questions}


def true_answers(articles: list[dict[str, Any]]) -> dict[str, list[str]]:
    """The true answers of each question."""
    return {
        str(question["id"]): [answer["text"] for answer in question["answers"]]
        for article in articles for paragraph in article["paragraphs"] for question in paragraph["qas"]
    }  # fmt: skip


def _draw(count: int, limit: int | None, seed: int) -> list[int]:
    if limit is None or limit >= count:
        return list(range(count))
    return sorted(int(row) for row in np.random.default_rng(seed).permutation(count)[:limit])


def encode_split(
    task: Task, read: Prepared, tokenizer: WordPiece, rules: WindowRules, training: bool = False
) -> Prepared:
    """Encode a split; what is cut is counted and said."""
    features = ENCODE[task.kind](task, read, tokenizer, rules, training)
    logger.info("%s: %s", read.split, _words(read, features))
    if features.truncated:
        inputs = len(features.sequences.lengths) if isinstance(features, ChoiceFeatures) else len(read)
        what = (
            f"questions longer than {rules.max_query_length} tokens" if read.questions
            else f"inputs longer than {rules.max_seq_length} tokens"
        )  # fmt: skip
        share = 100 * features.truncated / inputs
        logger.info("%s: %s %s, cut (%.1f %%)", read.split, f"{features.truncated:,}", what, share)
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
