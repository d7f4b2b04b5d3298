"""TF-IDF of words and characters with a linear head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from typing import Any, ClassVar, Self, cast

import numpy as np

from bertcli.data.labelled.examples import TextExamples
from bertcli.kinds.span import SPAN
from bertcli.lifecycle.baselining.methods.linear_texts import (
    TEXT_KINDS,
    WORD_KINDS,
    Input,
    LinearTexts,
    fit_linear,
    texts_of,
)
from bertcli.lifecycle.baselining.methods.method import Fitting, Floats, Method
from bertcli.lifecycle.baselining.methods.sliding_window import SlidingWindow
from bertcli.lifecycle.baselining.methods.word_features import WordFeatures
from bertcli.lifecycle.baselining.methods.words import WORD
from bertcli.tasks.task import Task

PARTS = {"ngram_range": (1, 2), "token_pattern": WORD}, {"ngram_range": (2, 5), "analyzer": "char_wb"}


def bag_of_words(*vocabularies: list[str]) -> Any:
    """What makes the vectors, a union of TF-IDF of words and of characters, fitted if the vocabulary of each is given."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_union

    pairs = zip_longest(PARTS, [{term: number for number, term in enumerate(terms)} for terms in vocabularies])
    return make_union(*(TfidfVectorizer(**part, sublinear_tf=True, vocabulary=terms) for part, terms in pairs))


@dataclass(frozen=True)
class BagOfWords(LinearTexts):
    """The vocabularies with their inverse document frequencies, and the head."""

    json_types: ClassVar = {"words": list, "characters": list}
    words: list[str]
    characters: list[str]
    frequencies: Floats  # inverse document frequencies of the words, then of the characters, [H]

    @classmethod
    def fit(cls, setup: Fitting) -> Self:
        """Fit the vocabularies and the head to all training texts."""
        union = bag_of_words()
        vectors = union.fit_transform(texts_of(cast(TextExamples, setup.train.examples))).tocsr()
        parts = [part for _, part in union.transformer_list]
        words, characters = (part.get_feature_names_out().tolist() for part in parts)
        frequencies = np.concatenate([part.idf_ for part in parts]).astype(np.float32)
        return cls(**fit_linear(setup, vectors), words=words, characters=characters, frequencies=frequencies)

    def vectors(self, inputs: Sequence[Input]) -> Any:
        """The TF-IDF of inputs, [N, H], sparse."""
        return self._vectorizer.transform([" ".join(parts) for parts in inputs])

    @cached_property
    def _vectorizer(self) -> Any:
        union = bag_of_words(self.words, self.characters)
        parts = np.split(self.frequencies.astype(np.float64), [len(self.words)])
        for (_, vectorizer), own in zip(union.transformer_list, parts, strict=True):
            vectorizer.idf_ = own
        return union

    def is_sound(self, task: Task) -> bool:
        """Whether each word and each part of one has a frequency and weights."""
        count = len(self.words) + len(self.characters)
        return super().is_sound(task) and self.frequencies.shape == (count,) == self.weights.shape[1:]

    def notes(self, task: Task) -> list[str]:
        """The sizes of the vocabularies."""
        words = f"{len(self.words):,} words and pairs of words, and {len(self.characters):,} runs of 2 to 5 characters"
        return [f"TF-IDF of {words}, with logistic regression, or ridge regression for values."]


OF_TEXTS = dict.fromkeys(TEXT_KINDS, BagOfWords)
EXPLAINED = "It counts words, and has no neural network."
BAG_OF_WORDS = Method(
    "bag-of-words", {**OF_TEXTS, **dict.fromkeys(WORD_KINDS, WordFeatures), SPAN.name: SlidingWindow}, EXPLAINED
)
