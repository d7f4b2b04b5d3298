"""Start and end logits turned into answers (write_predictions of run_squad.py)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from bertcli.data.labelled.squad import SpanExample
from bertcli.data.packing.span_features import Window
from bertcli.data.text.tokenization import WordPiece

Logits = tuple[NDArray[np.float32], NDArray[np.float32]]


@dataclass(frozen=True)
class AnswerRules:
    """How answers are chosen."""

    n_best_size: int = 20
    max_answer_length: int = 30
    null_score_diff_threshold: float = 0.0
    with_impossible: bool = False


@dataclass(frozen=True)
class Candidate:
    """One possible answer of a question, best first among its n-best."""

    text: str
    start_logit: float
    end_logit: float
    probability: float = 0.0
    first_word: int = -1  # where in the context the answer starts, in words


@dataclass(frozen=True)
class Answer:
    """The answer of a question, with its n-best and, for SQuAD 2.0, the odds of there being none."""

    id: str
    text: str
    n_best: list[Candidate]
    null_odds: float | None
    had_candidate: bool  # False where there is no valid span at all: 1.1 says "empty", 2.0 crashes in the original


@dataclass(frozen=True)
class _Span:
    window: int
    start: int
    end: int
    start_logit: float
    end_logit: float


def choose_answers(
    examples: list[SpanExample],
    windows: list[Window],
    logits: Sequence[Logits],
    tokenizer: WordPiece,
    rules: AnswerRules,
) -> list[Answer]:
    """Choose each question's answer from the logits of its windows, [tokens] each for start and end."""
    of_example: dict[int, list[int]] = defaultdict(list)
    for index, window in enumerate(windows):
        of_example[window.example].append(index)
    finder = TextFinder(tokenizer)
    return [
        _choose(example, of_example[number], windows, logits, finder, rules) for number, example in enumerate(examples)
    ]


def _choose(
    example: SpanExample,
    mine: list[int],
    windows: list[Window],
    logits: Sequence[Logits],
    finder: TextFinder,
    rules: AnswerRules,
) -> Answer:
    spans = [span for index in mine for span in _spans(index, windows[index], logits[index], rules)]
    null: tuple[float, float] | None = None
    if rules.with_impossible and mine:
        scores = [float(logits[index][0][0] + logits[index][1][0]) for index in mine]
        best = mine[int(np.argmin(scores))]
        null = float(logits[best][0][0]), float(logits[best][1][0])
        spans.append(_Span(-1, 0, 0, *null))
    spans.sort(key=lambda span: span.start_logit + span.end_logit, reverse=True)
    n_best = _n_best(example, spans, windows, finder, rules, null)
    real = next((candidate for candidate in n_best if candidate.text), None)
    n_best = n_best or [Candidate("empty" if not rules.with_impossible else "", 0.0, 0.0)]
    n_best = _with_probabilities(n_best)
    had = any(span.window >= 0 for span in spans)
    if null is None:
        return Answer(example.id, n_best[0].text, n_best, None, had)
    if real is None:
        return Answer(example.id, "", n_best, None, False)
    odds = sum(null) - real.start_logit - real.end_logit
    return Answer(example.id, "" if odds > rules.null_score_diff_threshold else real.text, n_best, odds, True)


def _spans(index: int, window: Window, logits: Logits, rules: AnswerRules) -> list[_Span]:
    """The valid spans among the best starts and ends of a window, starts first; ties keep the lower position."""
    starts, ends = (_best_positions(side, rules.n_best_size) for side in logits)
    last = window.offset + len(window.words)
    found = []
    for start in starts:
        if not window.offset <= start < last or not window.is_max_context[start - window.offset]:
            continue
        for end in ends:
            if start <= end < min(last, start + rules.max_answer_length):
                found.append(_Span(index, start, end, float(logits[0][start]), float(logits[1][end])))
    return found


def _best_positions(values: NDArray[np.float32], count: int) -> list[int]:
    return [int(position) for position in np.argsort(-values, kind="stable")[:count]]


def _n_best(
    example: SpanExample,
    spans: list[_Span],
    windows: list[Window],
    finder: TextFinder,
    rules: AnswerRules,
    null: tuple[float, float] | None,
) -> list[Candidate]:
    chosen: list[Candidate] = []
    seen = set()
    for span in spans:
        if len(chosen) >= rules.n_best_size:
            break
        text = "" if span.window < 0 else _text(example, windows[span.window], span, finder)
        if span.window >= 0 and text in seen:
            continue
        seen.add(text)
        first_word = -1 if span.window < 0 else windows[span.window].words[span.start - windows[span.window].offset]
        chosen.append(Candidate(text, span.start_logit, span.end_logit, first_word=first_word))
    if null is not None and "" not in seen:
        chosen.append(Candidate("", *null))
    return chosen


def _text(example: SpanExample, window: Window, span: _Span, finder: TextFinder) -> str:
    first, last = window.words[span.start - window.offset], window.words[span.end - window.offset]
    return finder.find(window.tokens[span.start : span.end + 1], " ".join(example.words[first : last + 1]))


def _with_probabilities(candidates: list[Candidate]) -> list[Candidate]:
    shares = softmax([candidate.start_logit + candidate.end_logit for candidate in candidates])
    return [replace(candidate, probability=float(share)) for candidate, share in zip(candidates, shares, strict=True)]


class TextFinder:
    """Finds the original spelling of an answer whose pieces were lower-cased and split."""

    def __init__(self, tokenizer: WordPiece) -> None:
        self.tokenizer = tokenizer
        self.normalizer, self.pre_tokenizer = tokenizer.backend.normalizer, tokenizer.backend.pre_tokenizer

    def find(self, tokens: list[str], original: str) -> str:
        """The text of tokens, spelt as in the words that they are of."""
        text = self.tokenizer.spell(tokens)
        if self.tokenizer.is_wordpiece:
            return self.final_text(text, original)
        return text if text in original else original

    def basic_tokens(self, text: str) -> str:
        """The basic tokens of a text with a space between them."""
        normal = self.normalizer.normalize_str(text)
        return " ".join(token for token, _ in self.pre_tokenizer.pre_tokenize_str(normal))

    def final_text(self, predicted: str, original: str) -> str:
        """Project the predicted text onto the original one (get_final_text).

        Where they cannot be aligned character by character, the original is returned whole.
        """
        tokens = self.basic_tokens(original)
        start = tokens.find(predicted)
        if start == -1:
            return original
        original_places = [place for place, character in enumerate(original) if character != " "]
        token_places = [place for place, character in enumerate(tokens) if character != " "]
        if len(original_places) != len(token_places):
            return original
        number = {place: index for index, place in enumerate(token_places)}
        end = start + len(predicted) - 1
        if start not in number or end not in number:
            return original
        return original[original_places[number[start]] : original_places[number[end]] + 1]
