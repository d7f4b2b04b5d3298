"""A split of a task, read and encoded: one function a kind."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bertcli.data.own_file import looks_like_file, task_of_file
from bertcli.data.span_features import SpanFeatures, WindowRules, encode_spans
from bertcli.data.squad import SpanExample, load_squad, span_examples
from bertcli.data.task_files import TextExamples, data_folder, load_text_examples, read_table, stratified_split
from bertcli.data.text_features import TextFeatures, encode_texts, label_ids, label_values
from bertcli.data.tokenization import WordPiece
from bertcli.tasks import get_task
from bertcli.tasks.task import Task

logger = logging.getLogger("bertcli")
DEV_SHARE = 0.1  # of a user's file that comes without a dev set


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
    """A split as the model and the metric want it."""

    split: str
    texts: TextExamples | None = None
    questions: list[SpanExample] = field(default_factory=list)
    features: TextFeatures | SpanFeatures | None = None
    answers: dict[str, list[str]] = field(default_factory=dict)  # question -> true answers

    def __len__(self) -> int:
        """Number of examples, which for span tasks is less than the number of windows."""
        return len(self.texts) if self.texts is not None else len(self.questions)


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
    if source.task.kind == "span":
        return _read_span(source, split, training, limit)
    texts = _own_texts(source, split) if source.own_file else load_text_examples(source.task, split, source.data_dir)
    return Prepared(split, texts.take(_draw(len(texts), limit, source.seed)))


def _own_texts(source: Source, split: str) -> TextExamples:
    columns = {key: str(value) for key, value in source.task.files.columns.items()}
    examples = read_table(Path(source.task.files.splits["train"]), columns)
    labels = examples.labels or []
    examples = examples.take([row for row, label in enumerate(labels) if label != ""])
    if source.whole_file:
        return examples
    stratify = examples.labels if source.task.kind == "classify" else None
    parts = stratified_split(stratify, len(examples), DEV_SHARE, source.seed)
    return examples.take(parts[0 if split == "train" else 1])


def _read_span(source: Source, split: str, training: bool, limit: int | None) -> Prepared:
    with_impossible = source.task.name == "squad_v2"
    articles = load_squad(source.task, split, source.data_dir)
    questions = span_examples(articles, training, with_impossible)
    questions = [questions[row] for row in _draw(len(questions), limit, source.seed)]
    return Prepared(split, questions=questions, answers=true_answers(articles))


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
    features: TextFeatures | SpanFeatures
    if read.texts is None:
        features = encode_spans(read.questions, tokenizer, rules, training)
        what = f"questions longer than {rules.max_query_length} tokens"
        logger.info("%s: %s questions, %s windows", read.split, f"{len(read):,}", f"{len(features.windows):,}")
    else:
        labels = (
            label_values(read.texts) if task.kind == "regress" else label_ids(read.texts, task.labels, task.file_labels)
        )
        features = encode_texts(read.texts, tokenizer, rules.max_seq_length, labels)
        what = f"examples longer than {rules.max_seq_length} tokens"
        logger.info("%s: %s examples from %s", read.split, f"{len(read):,}", read.texts.origin)
    if features.truncated:
        logger.info(
            "%s: %s %s, cut (%.1f %%)",
            read.split,
            f"{features.truncated:,}",
            what,
            100 * features.truncated / len(read),
        )
    return Prepared(read.split, read.texts, read.questions, features, read.answers)
