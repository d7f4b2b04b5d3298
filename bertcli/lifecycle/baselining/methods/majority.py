"""The most frequent label or the mean, whatever the input; of tags, the most frequent one of each word."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import ClassVar, Self, cast

import numpy as np

from bertcli.data.labelled.examples import Examples, Sentences, TextExamples
from bertcli.kinds import KINDS
from bertcli.kinds.classification import CLASSIFICATION
from bertcli.kinds.text import TextKind
from bertcli.kinds.types import Labels, Predictions
from bertcli.lifecycle.baselining.methods.linear_texts import STRENGTH, TEXT_KINDS, WORD_KINDS
from bertcli.lifecycle.baselining.methods.method import Baseline, Fitting, Floats, Method
from bertcli.tasks.task import Task


@dataclass(frozen=True)
class MajorityAnswer(Baseline):
    """The logits that a linear head gives all examples when it sees nothing of them: of the frequencies, or the mean."""

    is_constant: ClassVar = True
    biases: Floats  # [C]

    @classmethod
    def fit(cls, setup: Fitting) -> Self:
        """Fit a head to features that are all 0; for choices, one whose labels are the numbers of the choices."""
        task, train = setup.task, cast(TextExamples, setup.train.examples)
        kind = cast(TextKind, setup.kind)
        targets = cast(Labels, kind.targets(task, train))
        kind = CLASSIFICATION if train.choices else kind
        _, biases = kind.fit_head(np.zeros((len(train), 1)), targets, max(1, len(task.labels)), STRENGTH)
        return cls(biases.astype(np.float32))

    def predict(self, task: Task, examples: Examples) -> Predictions:
        """The same prediction for each example."""
        kind, texts = cast(TextKind, KINDS[task.kind]), cast(TextExamples, examples)
        logits = self.biases.astype(np.float64)
        counts = [len(each) for each in texts.choices or ()] or [len(logits)] * len(texts)
        return [kind.predict(task.labels, logits[:count]) for count in counts]

    def is_sound(self, task: Task) -> bool:
        """Whether there is one bias a label."""
        return self.biases.shape == (len(task.labels) or len(self.biases),) and len(self.biases) > 0


@dataclass(frozen=True)
class MajorityTags(Baseline):
    """How often each word has each tag in the training data."""

    json_types: ClassVar = {"words": list}
    words: list[str]
    counts: Floats  # [words + 1, C]; the last row is of all words, for those that are not known

    @classmethod
    def fit(cls, setup: Fitting) -> Self:
        """Count the tags of each word."""
        train, labels = cast(Sentences, setup.train.examples), setup.task.labels
        words = list(chain.from_iterable(train.words))
        tags = [labels.index(tag) for tag in chain.from_iterable(train.tags or ())]
        rows = {word: row for row, word in enumerate(dict.fromkeys(words))}
        counts = np.zeros((len(rows) + 1, len(labels)), dtype=np.float32)
        np.add.at(counts, ([rows[word] for word in words], tags), 1)
        counts[-1] = counts.sum(0)
        return cls(list(rows), counts)

    def predict(self, task: Task, examples: Examples) -> Predictions:
        """The tags of each sentence, each with its share of the counts."""
        rows, found = {word: row for row, word in enumerate(self.words)}, []
        best, shares = self.counts.argmax(1), (self.counts.max(1) / self.counts.sum(1)).round(6).astype(float)
        for own in cast(Sentences, examples).words:
            places = [rows.get(word, -1) for word in own]
            found.append({"tags": [task.labels[best[at]] for at in places], "scores": shares[places].tolist()})
        return found

    def is_sound(self, task: Task) -> bool:
        """Whether each word has counts of all tags."""
        return self.counts.shape == (len(self.words) + 1, len(task.labels)) and bool((self.counts.sum(1) > 0).all())


OF_TEXTS = dict.fromkeys(TEXT_KINDS, MajorityAnswer)
EXPLAINED = "The most frequent label or the mean of the training data, whatever the input; of tags, the most frequent one of each word."
MAJORITY = Method("majority", {**OF_TEXTS, **dict.fromkeys(WORD_KINDS, MajorityTags)}, EXPLAINED)
