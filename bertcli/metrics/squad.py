"""Exact match and F1 of answers, as the official SQuAD scripts define them."""

from __future__ import annotations

import re
import string
from collections import Counter
from itertools import accumulate
from typing import Any

import datasets
import evaluate

PUNCTUATION = frozenset(string.punctuation)
ARTICLES = re.compile(r"\b(a|an|the)\b")
NO_ANSWER_ABOVE = 1.0  # evaluate-v2.0.py: an answer whose no-answer score is above this is scored as none


class Squad(evaluate.Metric):  # type: ignore[misc]
    """Exact match and F1, times 100; a question without an answer has the answer "" (SQuAD 2.0).

    `na_probs`, a no-answer score for each prediction (higher: rather none), adds the best scores that a threshold
    on it can give, and the thresholds. `Squad("squad")` compares with true answers of mere punctuation too, as 1.1 does.
    """

    def _info(self) -> evaluate.MetricInfo:
        text = datasets.Value("string")
        return evaluate.MetricInfo(
            description=str(self.__doc__),
            citation="",
            inputs_description="Answers, predicted, and the lists of true ones.",
            features=datasets.Features({"predictions": text, "references": datasets.Sequence(text)}),
        )

    def _compute(self, predictions: Any, references: Any, na_probs: list[float] | None = None) -> dict[str, float]:
        exact, f1 = [], []
        for predicted, truths in zip(predictions, references, strict=True):
            answers = [truth for truth in truths if normalize_answer(truth)] or [""]
            compared = truths if self.config_name == "squad" else answers
            exact.append(max(exact_score(predicted, truth) for truth in compared))
            f1.append(max(f1_score(predicted, truth) for truth in answers))
        has_answer = [any(truths) for truths in references]
        best: dict[str, float] = {}
        if na_probs is not None:
            for name, raw in (("exact", exact), ("f1", f1)):
                found = best_threshold(predictions, raw, has_answer, na_probs)
                best[f"best_{name}"], best[f"best_{name}_thresh"] = found
            for row, has in enumerate(has_answer):
                if na_probs[row] > NO_ANSWER_ABOVE:
                    exact[row] = f1[row] = float(not has)
        scores = {"exact_match": _mean(exact), "f1": _mean(f1)}
        if not all(has_answer):
            for name, wanted in (("HasAns", True), ("NoAns", False)):
                rows = [row for row, has in enumerate(has_answer) if has == wanted]
                scores[f"{name}_exact_match"] = _mean([exact[row] for row in rows])
                scores[f"{name}_f1"] = _mean([f1[row] for row in rows])
        return scores | best


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


def _mean(values: list[float]) -> float:
    return 100 * sum(values) / len(values) if values else 0.0
