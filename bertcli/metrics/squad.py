"""Exact match and F1 of answers, as the official SQuAD scripts define them."""

import re
import string
from collections import Counter
from functools import lru_cache
from itertools import accumulate
from typing import Any

import numpy as np

from bertcli.metrics.metric import Array, Metric, Weighted

PUNCTUATION = frozenset(string.punctuation)
ARTICLES = re.compile(r"\b(a|an|the)\b")
NO_ANSWER_ABOVE = 1.0  # evaluate-v2.0.py: an answer whose no-answer score is above this is scored as none


class Squad(Metric):
    """Exact match and F1, times 100; a question without an answer has the answer "" (SQuAD 2.0).

    `na_probs`, a no-answer score for each prediction (higher: rather none), adds the best scores that a threshold
    on it can give, and the thresholds. `Squad("squad")` compares with true answers of mere punctuation too, as 1.1 does.
    """

    takes = ("text", "texts")

    def _compute(
        self, predictions: Any, references: Any, na_probs: list[float] | None = None, **more: Any
    ) -> dict[str, float]:
        exact, f1 = self.answer_scores(predictions, references)
        best: dict[str, float] = {}
        if na_probs is not None:
            has_answer = [any(truths) for truths in references]
            for name, raw in (("exact", exact), ("f1", f1)):
                found = best_threshold(predictions, raw, has_answer, na_probs)
                best[f"best_{name}"], best[f"best_{name}_thresh"] = found
        return super()._compute(predictions, references, na_probs=na_probs) | best

    def answer_scores(
        self, predictions: Any, references: Any, na_probs: list[float] | None = None
    ) -> tuple[list[float], list[float]]:
        """Exact match and F1 of each answer, from 0 to 1; one with too high a no-answer score counts as none."""
        exact, f1 = [], []
        for row, (predicted, truths) in enumerate(zip(predictions, references, strict=True)):
            answers = [truth for truth in truths if normalize_answer(truth)] or [""]
            compared = truths if self.config_name == "squad" else answers
            none = na_probs is not None and na_probs[row] > NO_ANSWER_ABOVE
            exact.append(float(not any(truths)) if none else max(exact_score(predicted, truth) for truth in compared))
            f1.append(float(not any(truths)) if none else max(f1_score(predicted, truth) for truth in answers))
        return exact, f1

    def weighted(self, predictions: Any, references: Any, na_probs: list[float] | None = None) -> Weighted:
        columns = np.array([*self.answer_scores(predictions, references, na_probs)])
        has = np.array([any(truths) for truths in references])
        groups = {"": has | True} | ({} if has.all() else {"HasAns_": has, "NoAns_": ~has})

        def scores(weights: Array) -> dict[str, Array]:
            return {
                f"{group}{name}": weights @ (column * rows) / np.maximum(weights @ rows, 1)
                for group, rows in groups.items()
                for name, column in zip(("exact_match", "f1"), columns, strict=True)
            }

        return scores


def best_threshold(
    predictions: list[str], scores: list[float], has_answer: list[bool], na_probs: list[float]
) -> tuple[float, float]:
    """The best mean score, times 100, if answers with a no-answer score above a threshold were none, and the threshold.

    As find_best_thresh of evaluate-v2.0.py, which does not keep equal no-answer scores together: their order counts.
    """
    order = sorted(range(len(scores)), key=na_probs.__getitem__)
    gains = (scores[row] if has_answer[row] else -float(predictions[row] != "") for row in order)
    totals = list(accumulate(gains, initial=float(has_answer.count(False))))
    best = totals.index(max(totals))
    return 100 * totals[best] / len(scores), na_probs[order[best - 1]] if best else 0.0


@lru_cache(maxsize=100_000)  # the same answers are compared for the scores, the errors and the calibration
def normalize_answer(text: str) -> str:
    """Lower-case a text; drop punctuation, articles and extra white space."""
    plain = "".join(character for character in text.lower() if character not in PUNCTUATION)
    return " ".join(ARTICLES.sub(" ", plain).split())


def exact_score(predicted: str, truth: str) -> float:
    """1 where both are the same after normalisation."""
    return float(normalize_answer(predicted) == normalize_answer(truth))


def f1_score(predicted: str, truth: str) -> float:
    """Overlap of the words of both; of two empty answers it is 1 (evaluate-v2.0.py)."""
    predicted_words, true_words = normalize_answer(predicted).split(), normalize_answer(truth).split()
    if not predicted_words or not true_words:
        return float(predicted_words == true_words)
    common = (Counter(predicted_words) & Counter(true_words)).total()
    if common == 0:
        return 0.0
    precision, recall = common / len(predicted_words), common / len(true_words)
    return 2 * precision * recall / (precision + recall)
