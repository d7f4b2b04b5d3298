"""The answer to a question by the words around it: the sliding window of SQuAD's paper (Rajpurkar et al. 2016, section 5)."""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np

from bertcli.data.labelled.examples import Examples
from bertcli.data.labelled.squad import Questions, SpanExample
from bertcli.kinds.types import Predictions
from bertcli.lifecycle.baselining.methods.method import Baseline, Fitting
from bertcli.tasks.task import Task

if TYPE_CHECKING:
    from bertcli.data.packing.span_answers import Answer

SHARE_OF_ANSWERS = 90  # percent of the training answers that are not longer than the longest that is given
CLAUSE_ENDS = (",", ";", ":", ")", ".", "!", "?")
KEPT = 20  # candidates of a question, as run_squad.py keeps

# P words of a context, K candidates


@dataclass(frozen=True)
class SlidingWindow(Baseline):
    """The longest answer; the paper's candidates are constituents of parsed sentences, these are runs of words of a clause."""

    json_types: ClassVar = {"longest": int}
    longest: int  # words of an answer

    @classmethod
    def fit(cls, setup: Fitting) -> Self:
        """The number of words that most training answers have at most; nothing else is learnt."""
        asked = cast(Questions, setup.train.examples).asked
        lengths = [each.end_word - each.start_word + 1 for each in asked if not each.is_impossible]
        return cls(max(1, int(np.percentile(lengths, SHARE_OF_ANSWERS))) if lengths else 1)

    def predict(self, task: Task, examples: Examples) -> Predictions:
        """The answers, one for each question: that there is none is never said."""
        answers = [self._answer(each) for each in cast(Questions, examples).asked]
        found = ((each, {"id": each.id, "answer": each.text, "score": each.n_best[0].probability}) for each in answers)
        return [{**row, "null_odds": None, "answer_object": each} for each, row in found]

    def is_sound(self, task: Task) -> bool:
        """Whether an answer has a word."""
        return self.longest > 0

    def notes(self, task: Task) -> list[str]:
        """What an answer may be."""
        return [f"An answer has at most {self.longest} words of one clause, and none of the question's."]

    def _answer(self, example: SpanExample) -> Answer:
        from scipy.special import softmax

        from bertcli.data.packing.span_answers import Answer, Candidate

        spans = list(self._candidates(example)) or [(0, 1)]
        scores = _scores(example, spans)
        best = np.argsort(-scores, kind="stable")[:KEPT]
        shares = softmax(scores)
        found = ((spans[k], scores[k] / 2, round(float(shares[k]), 6)) for k in best.tolist())
        n_best = [Candidate(_text(example.words, *span), half, half, share, span[0]) for span, half, share in found]
        return Answer(example.id, n_best[0].text, n_best, None, had_candidate=bool(example.words))

    def _candidates(self, example: SpanExample) -> Iterator[tuple[int, int]]:
        """First word, and the one after the last, of the runs of words in the sentences that share most with the question."""
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

        words, asked = _plain(example.words), _plain(example.question.split())
        barred = {"", *ENGLISH_STOP_WORDS}
        sentences = list(_sentences(example.words))
        shared = [_overlap(words[first:last], asked) for first, last in sentences]
        for (begin, end), overlap in zip(sentences, shared, strict=True):
            if overlap < max(shared):
                continue
            for first in range(begin, end):
                for last in range(first + 1, min(end, first + self.longest) + 1):
                    if words[last - 1] in asked:
                        break
                    if words[first] not in barred and words[last - 1] not in barred:
                        yield first, last
                    if example.words[last - 1].endswith(CLAUSE_ENDS):
                        break


def _scores(example: SpanExample, spans: list[tuple[int, int]]) -> Any:
    """Of each candidate the best window less its distance to the question's words (Richardson et al. 2013), [K]."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    words, asked = _plain(example.words), set(_plain(example.question.split()))
    counts = Counter(words)
    weights = np.array([np.log(1 + 1 / counts[word]) for word in words])  # [P] inverse counts
    is_asked = np.array([word in asked for word in words], dtype=bool)  # [P]
    places = np.array([at for at, word in enumerate(words) if word in asked - ENGLISH_STOP_WORDS])
    found = []
    for first, last in spans:
        own = set(words[first:last])
        is_near = is_asked | np.array([word in own for word in words], dtype=bool)
        sums = np.concatenate([[0.0], np.cumsum(weights * is_near)])
        width = min(len(words), len(asked | own))
        window = (sums[width:] - sums[: len(sums) - width]).max(initial=0)
        distances = np.minimum(abs(places - first), abs(places - last + 1))
        found.append(window - (distances.min() / max(1, len(words) - 1) if len(places) else 1))
    return np.array(found)


def _plain(words: list[str]) -> list[str]:
    """Words in lower case, without the punctuation around them."""
    return [word.lower().strip(string.punctuation) for word in words]


def _sentences(words: list[str]) -> Iterator[tuple[int, int]]:
    """First word of each sentence, and the one after its last."""
    first = 0
    for place, word in enumerate(words, start=1):
        if place == len(words) or (word.rstrip("\"')]").endswith((".", "!", "?")) and words[place][:1].isupper()):
            yield first, place
            first = place


def _overlap(words: list[str], asked: list[str]) -> int:
    """How many different words, and pairs of neighbours, are in both."""
    pairs = [set(pairwise(each)) for each in (words, asked)]
    return len({*words} & {*asked}) + len(pairs[0] & pairs[1])


def _text(words: list[str], first: int, last: int) -> str:
    return " ".join(words[first:last]).strip(string.punctuation.replace("(", "").replace("$", ""))
