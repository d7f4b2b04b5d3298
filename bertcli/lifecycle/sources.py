"""A split of a task, read and encoded: one function a kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bertcli import say
from bertcli.config.training import FinetuneConfig
from bertcli.config.use import EvaluateConfig
from bertcli.data.labelled.conll import Sentences, read_conll, sentences_of_hub
from bertcli.data.labelled.examples import Examples
from bertcli.data.labelled.official_files import (
    TextExamples,
    data_folder,
    find_file,
    load_from_hub,
    read_official,
    split_file,
    texts_of_hub,
)
from bertcli.data.labelled.own_splits import looks_like_file
from bertcli.data.labelled.squad import Questions, articles_of_hub, read_squad, span_examples, true_answers
from bertcli.data.packing.choice_features import ChoiceFeatures, encode_choices
from bertcli.data.packing.span_features import SpanFeatures, WindowRules, encode_spans
from bertcli.data.packing.tag_features import TagFeatures, encode_sentences
from bertcli.data.packing.text_features import LABELS, TextFeatures, encode_texts, label_ids
from bertcli.data.text.tokenization import WordPiece
from bertcli.errors import UserError
from bertcli.lifecycle.own_files import own_task
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
    """A split as the model and the metric want it: its examples, and the same encoded."""

    split: str
    examples: Examples
    features: Features | None = None

    def __len__(self) -> int:
        """Number of examples, which may be less than the number of windows."""
        return len(self.examples)


def check_options(config: FinetuneConfig | EvaluateConfig) -> None:
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
    examples = _load(source, split)
    if not isinstance(examples, Examples):
        asked, answers = span_examples(examples, training, source.task.with_impossible), true_answers(examples)
        examples = Questions(asked, answers, origin=source.task.name)
    return Prepared(split, examples.take(_draw(len(examples), limit, source.seed)))


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


def _draw(count: int, limit: int | None, seed: int) -> list[int]:
    if limit is None or limit >= count:
        return list(range(count))
    return sorted(int(row) for row in np.random.default_rng(seed).permutation(count)[:limit])


def encode_split(
    task: Task, read: Prepared, tokenizer: WordPiece, rules: WindowRules, training: bool = False
) -> Prepared:
    """Encode a split; what is cut is counted and said."""
    encoded = encode(task, read, tokenizer, rules, training)
    features, examples = encoded.features, read.examples
    assert features is not None
    windows = "" if isinstance(examples, TextExamples) else f", {len(features.lengths):,} windows"
    say(f"{read.split}: {len(read):,} {examples.unit}s{windows} from {examples.origin}")
    if features.truncated:
        inputs = len(features.sequences.lengths) if isinstance(features, ChoiceFeatures) else len(read)
        longest = f"inputs longer than {rules.max_seq_length}"
        if isinstance(examples, Questions):
            longest = f"questions longer than {rules.max_query_length}"
        share = 100 * features.truncated / inputs
        say(f"{read.split}: {features.truncated:,} {longest} tokens, cut ({share:.1f} %)")
    return encoded


def encode(task: Task, read: Prepared, tokenizer: WordPiece, rules: WindowRules, training: bool = False) -> Prepared:
    """The same without a word."""
    return replace(read, features=_features(task, read.examples, tokenizer, rules, training))


def _features(task: Task, examples: Examples, tokenizer: WordPiece, rules: WindowRules, training: bool) -> Features:
    if isinstance(examples, Questions):
        return encode_spans(examples.asked, tokenizer, rules, training)
    if isinstance(examples, Sentences):
        return encode_sentences(examples, tokenizer, rules, task.labels)
    assert isinstance(examples, TextExamples)
    if task.kind == "choose":
        return encode_choices(examples, tokenizer, rules.max_seq_length, label_ids(examples, task))
    return encode_texts(examples, tokenizer, rules.max_seq_length, LABELS[task.kind](examples, task))
