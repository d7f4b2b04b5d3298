"""Static vectors of words, trained by Word2Vec on texts of the user's or on the training examples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, cast

import numpy as np

from bertcli import say
from bertcli.data.labelled.examples import Sentences, TextExamples
from bertcli.data.text.documents import find_text_files, read_documents
from bertcli.errors import UserError, check_extra
from bertcli.lifecycle.baselining.methods.method import Fitting, Floats
from bertcli.lifecycle.baselining.methods.words import words_of
from bertcli.training.progress import doing

SIZE, WINDOW, NEGATIVE = 100, 5, 5  # numbers of a vector, words on each side, negative samples: the usual ones
MANY_WORDS = 1_000_000  # of the text: from here on the usual minimum frequency and epochs
MIN_FREQUENCY, EPOCHS = 5, 5
MIN_FREQUENCY_OF_LITTLE, EPOCHS_OF_LITTLE = 2, 20


@dataclass(frozen=True)
class WordVectors:
    """The words by their frequency, and a vector of each, [V, D]."""

    words: list[str]
    table: Floats

    @cached_property
    def rows(self) -> dict[str, int]:
        """The row of each word in the table."""
        return {word: row for row, word in enumerate(self.words)}


def check_gensim() -> None:
    """Raise UserError if gensim is missing."""
    check_extra("vectors", "gensim", use="Word2Vec", instead="give --method bag-of-words")


def train_vectors(setup: Fitting) -> WordVectors:
    """Train vectors by skip-gram with negative sampling, in one thread, so that they are a function of text and seed.

    Raises UserError if the text has too few words.
    """
    from gensim.models import Word2Vec

    sentences = list(_sentences(setup))
    origin = ", ".join(setup.config.vectors_text) or f"the training {setup.train.examples.unit}s"
    count = sum(map(len, sentences))
    least, epochs = (MIN_FREQUENCY_OF_LITTLE, EPOCHS_OF_LITTLE) if count < MANY_WORDS else (MIN_FREQUENCY, EPOCHS)
    frequent = {"min_count": least, "epochs": epochs, "seed": setup.config.seed + 1, "workers": 1}
    try:
        with doing(f"training word vectors on {count:,} words of {origin}"):
            found: Any = Word2Vec(sentences, vector_size=SIZE, window=WINDOW, negative=NEGATIVE, sg=1, **frequent).wv
    except RuntimeError:
        raise UserError(f"No word occurs {least} times in {origin}.", "Give more text: --vectors-text FILE") from None
    say(
        f"{len(found.index_to_key):,} word vectors, from {count:,} words of {origin} ({epochs} epochs, words that occur {least} times)"
    )
    return WordVectors(list(found.index_to_key), np.asarray(found.vectors, dtype=np.float32))


def _sentences(setup: Fitting) -> Iterable[list[str]]:
    """The words of each line of the text."""
    if setup.config.vectors_text:
        return map(words_of, chain.from_iterable(read_documents(find_text_files(setup.config.vectors_text))))
    return filter(None, _words_of_examples(setup.train.examples))


def _words_of_examples(examples: Any) -> Iterator[list[str]]:
    """The words of each training text."""
    if hasattr(examples, "words"):
        return ([word.lower() for word in own] for own in cast(Sentences, examples).words)
    texts = cast(TextExamples, examples)
    return map(words_of, chain(texts.texts, texts.pairs or (), chain.from_iterable(texts.choices or ())))
