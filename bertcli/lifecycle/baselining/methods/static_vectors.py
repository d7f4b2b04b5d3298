"""The mean of static word vectors with a linear head (CBoW of GLUE's paper)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self, cast

import numpy as np

from bertcli.config.baselines import BaselineConfig
from bertcli.data.labelled.examples import TextExamples
from bertcli.lifecycle.baselining.methods.linear_texts import TEXT_KINDS, Input, LinearTexts, fit_linear, inputs_of
from bertcli.lifecycle.baselining.methods.method import Fitting, Floats, Method
from bertcli.lifecycle.baselining.methods.word_vectors import WordVectors, check_gensim, train_vectors
from bertcli.lifecycle.baselining.methods.words import words_of
from bertcli.tasks.task import Task

PAIR_FEATURES = 4  # of a pair: both means, their absolute difference and their product


@dataclass(frozen=True)
class StaticVectors(LinearTexts):
    """The vectors of words, and a head on their means."""

    json_types: ClassVar = {"words": list}
    words: list[str]
    table: Floats  # [V, D]

    @classmethod
    def check(cls, config: BaselineConfig) -> None:
        """Raise UserError if a text or gensim is missing."""
        super().check(config)
        check_gensim()

    @classmethod
    def fit(cls, setup: Fitting) -> Self:
        """Train the vectors, and fit the head to the means of all training texts."""
        found = train_vectors(setup)
        inputs = inputs_of(cast(TextExamples, setup.train.examples))
        head = fit_linear(setup, _features(found, inputs, is_pair=len(inputs[0]) > 1))
        return cls(words=found.words, table=found.table, **head)

    def vectors(self, inputs: Sequence[Input]) -> Any:
        """The features of inputs: [N, D], or [N, 4D] where pairs were learnt from."""
        return _features(self._vectors, inputs, self.weights.shape[1] > self.table.shape[1])

    @cached_property
    def _vectors(self) -> WordVectors:
        return WordVectors(self.words, self.table)

    def is_sound(self, task: Task) -> bool:
        """Whether each word has a vector, and the head is for such ones."""
        if self.table.ndim != 2 or len(self.table) != len(self.words) or not super().is_sound(task):
            return False
        return self.weights.shape[1] in (self.table.shape[1], PAIR_FEATURES * self.table.shape[1])

    def notes(self, task: Task) -> list[str]:
        """The number of vectors."""
        return [f"{len(self.words):,} word vectors of {self.table.shape[1]} numbers; other words count as nothing."]


def _features(vectors: WordVectors, inputs: Sequence[Input], is_pair: bool) -> Any:
    """The mean of each text, [N, D]; of pairs both means, how far they are apart and their product, [N, 4D]."""
    if not is_pair:
        return np.stack([_mean(vectors, " ".join(parts)) for parts in inputs])
    both = zip(*((*parts, "")[:2] for parts in inputs), strict=True)
    first, second = (np.stack([_mean(vectors, text) for text in each]) for each in both)
    return np.concatenate([first, second, abs(first - second), first * second], axis=1)


def _mean(vectors: WordVectors, text: str) -> Any:
    """The mean of the vectors of the known words, divided by its length, [D]; 0 where no word is known."""
    rows = [vectors.rows[word] for word in words_of(text) if word in vectors.rows]
    mean = vectors.table[rows].mean(0, dtype=np.float64) if rows else np.zeros(vectors.table.shape[1])
    return mean / (np.linalg.norm(mean) or 1)


EXPLAINED = "The mean of word vectors learnt by Word2Vec, with logistic regression, or ridge regression for values."
STATIC_VECTORS = Method("static-vectors", dict.fromkeys(TEXT_KINDS, StaticVectors), EXPLAINED)
