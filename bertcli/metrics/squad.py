"""Exact match and F1 of answers, as the official SQuAD scripts define them."""

from __future__ import annotations

import re
import string
from collections import Counter
from typing import Any

import datasets
import evaluate

PUNCTUATION = frozenset(string.punctuation)
ARTICLES = re.compile(r"\b(a|an|the)\b")


class Squad(evaluate.Metric):  # type: ignore[misc]
    """Exact match and F1, times 100; a question without an answer has the answer "" (SQuAD 2.0)."""

    def _info(self) -> evaluate.MetricInfo:
        text = datasets.Value("string")
        return evaluate.MetricInfo(
            description=str(self.__doc__),
            citation="",
            inputs_description="Answers, predicted, and the lists of true ones.",
            features=datasets.Features({"predictions": text, "references": datasets.Sequence(text)}),
        )

    def _compute(self, predictions: Any, references: Any) -> dict[str, float]:
        exact, f1, has_answer = [], [], []
        for predicted, truths in zip(predictions, references, strict=True):
            answers = [truth for truth in truths if normalize_answer(truth)] or [""]
            exact.append(max(exact_score(predicted, truth) for truth in answers))
            f1.append(max(f1_score(predicted, truth) for truth in answers))
            has_answer.append(answers != [""])
        scores = {"exact_match": _mean(exact), "f1": _mean(f1)}
        if not all(has_answer):
            for name, wanted in (("HasAns", True), ("NoAns", False)):
                rows = [row for row, has in enumerate(has_answer) if has == wanted]
                scores[f"{name}_exact_match"] = _mean([exact[row] for row in rows])
                scores[f"{name}_f1"] = _mean([f1[row] for row in rows])
        return scores


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
