"""Start and end logits turned into answers (write_predictions of run_squad.py)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from bertcli.data.labelled.squad import SpanExample
from bertcli.data.packing.span_features import Window
from bertcli.data.text.tokenization import WordPiece

# Of starts, [S]; and of ends, [S], or by a head whose ends depend on starts for each of the best of these, best first, [K, S].
Logits = tuple[NDArray[np.float32], NDArray[np.float32]]
NO_ANSWER_ABOVE = -2.75  # of a head that has a logit for there being none (qa_na_threshold of ELECTRA)


@dataclass(frozen=True)
class AnswerRules:
    """How answers are chosen."""

    n_best_size: int = 20
    max_answer_length: int = 30
    null_score_diff_threshold: float = 0.0
    with_impossible: bool = False


@dataclass(frozen=True)
class Candidate:
    """One possible answer of a question."""

    text: str
    start_logit: float
    end_logit: float
    probability: float = 0.0
    first_word: int = -1  # of the answer, in the context


@dataclass(frozen=True)
class Answer:
    """The answer of a question, with its n-best and, for SQuAD 2.0, the odds of there being none."""

    id: str
    text: str
    n_best: list[Candidate]
    null_odds: float | None
    had_candidate: bool  # False where there is no valid span at all: 1.1 says "empty", 2.0 crashes in the original


class _Span(NamedTuple):
    window: Window | None  # None for no answer
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
    no_answer: Sequence[float] = (),
) -> list[Answer]:
    """Choose each question's answer from the logits of its windows, [tokens] each for start and end.

    Where questions may have no answer, `no_answer` has the logits of that, of a head that gives them: the lowest decides.
    """
    if len(no_answer) and rules.with_impossible:
        odds = dict.fromkeys(range(len(examples)), inf)
        for window, none in zip(windows, no_answer, strict=True):
            odds[window.example] = min(odds[window.example], float(none))
        found = choose_answers(examples, windows, logits, tokenizer, replace(rules, with_impossible=False))
        texts = ["" if odds[number] > NO_ANSWER_ABOVE else answer.text for number, answer in enumerate(found)]
        return [replace(found[number], text=text, null_odds=odds[number]) for number, text in enumerate(texts)]
    of_example: dict[int, list[tuple[Window, Logits]]] = defaultdict(list)
    for window, scores in zip(windows, logits, strict=True):
        of_example[window.example].append((window, scores))
    finder = TextFinder(tokenizer)
    return [_choose(example, of_example[number], finder, rules) for number, example in enumerate(examples)]


def _choose(example: SpanExample, mine: list[tuple[Window, Logits]], finder: TextFinder, rules: AnswerRules) -> Answer:
    spans = [span for window, scores in mine for span in _spans(window, scores, rules)]
    had = bool(spans)
    null = _null_scores(mine) if rules.with_impossible and mine else None
    spans += [_Span(None, 0, 0, *null)] if null is not None else []
    missing = Candidate("", *null) if null is not None else None
    n_best = _with_probabilities(_n_best(example, spans, finder, rules.n_best_size), missing, rules)
    if null is None:
        return Answer(example.id, n_best[0].text, n_best, None, had)
    if (real := next(filter(lambda each: each.text, n_best), None)) is None:
        return Answer(example.id, "", n_best, None, False)
    odds = sum(null) - real.start_logit - real.end_logit
    return Answer(example.id, "" if odds > rules.null_score_diff_threshold else real.text, n_best, odds, True)


def _null_scores(mine: list[tuple[Window, Logits]]) -> tuple[float, float]:
    """The logits of [CLS] in the window that has the lowest."""
    of_none = [(float(start[window.no_answer]), float(end[window.no_answer])) for window, (start, end) in mine]
    return min(of_none, key=sum)


def _with_probabilities(found: list[Candidate], null: Candidate | None, rules: AnswerRules) -> list[Candidate]:
    """The candidates, and that of no answer unless it is among them, with their probabilities."""
    candidates = [*found, null] if null is not None and all(each.text for each in found) else found
    candidates = candidates or [Candidate("" if rules.with_impossible else "empty", 0.0, 0.0)]
    shares = softmax([candidate.start_logit + candidate.end_logit for candidate in candidates])
    return [replace(each, probability=float(share)) for each, share in zip(candidates, shares, strict=True)]


def _spans(window: Window, logits: Logits, rules: AnswerRules) -> list[_Span]:
    """The valid spans among the best starts and ends of a window, starts first; ties keep the lower position."""
    starts = np.argsort(-logits[0], kind="stable")[: rules.n_best_size]
    sides = np.atleast_2d(logits[1])[: len(starts)]
    if logits[1].ndim > 1:  # as many ends as starts are followed
        starts = starts[: len(sides)]
    best = np.argsort(-sides, kind="stable")[:, : len(starts)]
    followed = (np.broadcast_to(each, (len(starts), each.shape[1])) for each in (sides, best))
    first, last = window.offset, window.offset + len(window.words)
    return [
        _Span(window, start, end, float(logits[0][start]), float(side[end]))
        for start, side, ends in zip(starts.tolist(), *followed, strict=True)
        if first <= start < last and window.is_max_context[start - first]
        for end in ends.tolist()
        if start <= end < min(last, start + rules.max_answer_length)
    ]


def _n_best(example: SpanExample, spans: list[_Span], finder: TextFinder, count: int) -> list[Candidate]:
    """The candidates of the best spans, each text once."""
    chosen: list[Candidate] = []
    for span in sorted(spans, key=lambda span: span.start_logit + span.end_logit, reverse=True):
        if len(chosen) >= count:
            break
        text, first = "", -1
        if (window := span.window) is not None:
            first, last = (window.words[place - window.offset] for place in (span.start, span.end))
            text = finder.find(window.tokens[span.start : span.end + 1], " ".join(example.words[first : last + 1]))
            if any(text == candidate.text for candidate in chosen):
                continue
        chosen.append(Candidate(text, span.start_logit, span.end_logit, first_word=first))
    return chosen


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
        return " ".join(token for token, _ in self.pre_tokenizer.pre_tokenize_str(self.normalizer.normalize_str(text)))

    def final_text(self, predicted: str, original: str) -> str:
        """Project the predicted text onto the original (get_final_text); all of it, where characters do not align."""
        tokens = self.basic_tokens(original)
        start = tokens.find(predicted)
        if start == -1:
            return original
        theirs, ours = ([i for i, character in enumerate(text) if character != " "] for text in (original, tokens))
        end = start + len(predicted) - 1
        if len(theirs) != len(ours) or start not in ours or end not in ours:
            return original
        return original[theirs[ours.index(start)] : theirs[ours.index(end)] + 1]
