"""A tag for each word by a linear-chain CRF on its shape, its affixes and its neighbours."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Self, cast

import numpy as np

from bertcli.config.baselines import BaselineConfig
from bertcli.data.labelled.examples import Examples, Sentences
from bertcli.errors import check_extra
from bertcli.kinds.types import Predictions
from bertcli.lifecycle.baselining.methods.method import Baseline, Fitting, Floats
from bertcli.tasks.task import Task

SETTINGS = {"c1": 0.1, "c2": 0.1, "max_iterations": 100, "feature.possible_transitions": True}  # as is usual

# W words of all sentences, S of one, F features, C labels


@dataclass(frozen=True)
class WordFeatures(Baseline):
    """The weights that CRFsuite has learnt; words are tagged without it."""

    json_types: ClassVar = {"features": list}
    features: list[str]
    weights: Floats  # [F, C]
    transitions: Floats  # from one tag to the next, [C, C]

    @classmethod
    def check(cls, config: BaselineConfig) -> None:
        """Raise UserError if CRFsuite is missing."""
        check_extra("vectors", "pycrfsuite", use="A linear CRF", instead="give --method majority")

    @classmethod
    def fit(cls, setup: Fitting) -> Self:
        """Maximize the likelihood of the tags, by L-BFGS with L1 and L2 regularization."""
        import pycrfsuite

        train, labels = cast(Sentences, setup.train.examples), setup.task.labels
        trainer = pycrfsuite.Trainer(algorithm="lbfgs", params=SETTINGS, verbose=False)
        for words, tags in zip(train.words, train.tags or (), strict=True):
            trainer.append([*map(list, features_of(words))], tags)
        with TemporaryDirectory() as folder:
            path = str(Path(folder) / "crf")
            trainer.train(path)
            tagger = pycrfsuite.Tagger()
            with tagger.open(path):
                learnt = tagger.info()
        features = sorted({feature for feature, _ in learnt.state_features})
        rows = {feature: row for row, feature in enumerate(features)}
        weights = np.zeros((len(features), len(labels)), dtype=np.float32)
        for (feature, label), weight in learnt.state_features.items():
            weights[rows[feature], labels.index(label)] = weight
        transitions = np.zeros((len(labels), len(labels)), dtype=np.float32)
        for (before, after), weight in learnt.transitions.items():
            transitions[labels.index(before), labels.index(after)] = weight
        return cls(features, weights, transitions)

    def predict(self, task: Task, examples: Examples) -> Predictions:
        """The most probable tags of each sentence, each with its probability."""
        from scipy.sparse import csr_matrix

        sentences, known = cast(Sentences, examples).words, {name: row for row, name in enumerate(self.features)}
        rows = [[known[each] for each in own if each in known] for words in sentences for own in features_of(words)]
        ends = np.cumsum([0, *map(len, rows)])
        shape = (len(rows), len(self.features))
        present = csr_matrix((np.ones(ends[-1]), [*chain.from_iterable(rows)], ends), shape=shape)
        scores = present @ self.weights.astype(np.float64)  # [W, C]
        of_sentences = np.split(scores, np.cumsum([len(words) for words in sentences])[:-1])
        return [self._decoded(task, own) for own in of_sentences]

    def _decoded(self, task: Task, scores: Any) -> dict[str, Any]:
        """The prediction for a sentence by the scores of its words, [S, C]."""
        from scipy.special import logsumexp

        steps = self.transitions.astype(np.float64)
        best, back = [scores[0]], []
        forward, backward = [scores[0]], [np.zeros_like(scores[0])]
        for own in scores[1:]:
            paths = best[-1][:, None] + steps  # [C, C]
            back.append(paths.argmax(0))
            best.append(paths.max(0) + own)
            forward.append(logsumexp(forward[-1][:, None] + steps, axis=0) + own)
        for own in scores[:0:-1]:
            backward.append(logsumexp(steps + (own + backward[-1]), axis=1))
        places = [int(best[-1].argmax())]
        for pointers in reversed(back):
            places.append(int(pointers[places[-1]]))
        places.reverse()
        shares = np.exp(np.array(forward) + np.array(backward[::-1]) - logsumexp(forward[-1]))  # [S, C]
        tags = [task.labels[place] for place in places]
        return {"tags": tags, "scores": shares[range(len(places)), places].round(6).tolist()}

    def is_sound(self, task: Task) -> bool:
        """Whether each feature, and each tag, has a weight for each tag."""
        count = len(task.labels)
        return self.weights.shape == (len(self.features), count) and self.transitions.shape == (count, count)

    def notes(self, task: Task) -> list[str]:
        """The number of features."""
        return [f"A linear-chain CRF with {len(self.features):,} features of words, shapes, affixes and neighbours."]


def features_of(words: Sequence[str]) -> Iterator[set[str]]:
    """What is seen of each word of a sentence: itself, its shape and affixes, and the words on both sides."""
    around = ["", *words, ""]
    for place in range(1, len(words) + 1):
        before, after = (_of_neighbour(around[place + step]) for step in (-1, 1))
        sides = chain((f"-1 {each}" for each in before), (f"+1 {each}" for each in after))
        yield {"bias", *_of_word(around[place]), *sides}


def _of_word(word: str) -> Iterator[str]:
    lower = word.lower()
    yield from _of_neighbour(word)
    for length in range(1, min(4, len(word)) + 1):
        yield f"begins {lower[:length]}"
        yield f"ends {lower[-length:]}"


def _of_neighbour(word: str) -> Iterator[str]:
    yield f"word {word.lower()}"
    yield f"shape {_shape(word)}"


def _shape(word: str) -> str:
    """Capitals as A, small letters as a, digits as 0, each run as one: `McDonald's` is AaAa'a."""
    shape = "".join("A" if c.isupper() else "a" if c.isalpha() else "0" if c.isdigit() else c for c in word)
    return re.sub(r"(.)\1+", r"\1", shape)
