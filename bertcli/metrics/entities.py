"""Precision, recall and F1 of entities, times 100, as conlleval and seqeval define them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import datasets
import evaluate

from bertcli.errors import UserError

Entity = tuple[str, int, int]  # type, first word, last word
Word = tuple[str, str]  # prefix, type
OUTSIDE = ("O", "_")
PREFIXES = {"default": set("OBIES"), "IOB1": set("OBI"), "IOB2": set("OBI"), "IOBES": set("OBIES")}
# How an entity begins and ends where the scheme is strict.
ENDS = {"IOB2": {"BB", "BI"}, "IOBES": {"BE", "SS"}}


class Entities(evaluate.Metric):  # type: ignore[misc]
    """Scores over all entities and of each type; IOB1, IOB2 and IOBES are read leniently, as conlleval.pl does.

    `Entities("IOB2")` (or "IOB1", "IOBES") is strict, as seqeval's: an entity that breaks the scheme is none.
    """

    def _info(self) -> evaluate.MetricInfo:
        tags = datasets.Sequence(datasets.Value("string"))
        return evaluate.MetricInfo(
            description=str(self.__doc__),
            citation="",
            inputs_description="The tags of each sentence, predicted and true: O, B-PER, I-PER, ...",
            features=datasets.Features({"predictions": tags, "references": tags}),
        )

    def _compute(self, predictions: Any, references: Any) -> dict[str, float]:
        predicted: Counter[str] = Counter()
        true: Counter[str] = Counter()
        both: Counter[str] = Counter()
        for number, (guess, truth) in enumerate(zip(predictions, references, strict=True), 1):
            if len(guess) != len(truth):
                raise UserError(
                    f"Sentence {number} has {len(truth)} words, but {len(guess)} predicted tags.",
                    "Give one tag a word.",
                )
            found, wanted = (set(entities(tags, self.config_name)) for tags in (guess, truth))
            predicted.update(kind for kind, _, _ in found)
            true.update(kind for kind, _, _ in wanted)
            both.update(kind for kind, _, _ in found & wanted)
        scores = _scores("", both.total(), predicted.total(), true.total())
        for kind in sorted(predicted | true):
            scores |= _scores(f"{kind}_", both[kind], predicted[kind], true[kind])
        return scores


def entities(tags: list[str], scheme: str = "default") -> Iterator[Entity]:
    """The entities of a sentence; a tag without a type (`B`) is of type `_`.

    Raises:
        UserError: at a tag that the scheme does not have.
    """
    words = [OUTSIDE, *(_word(tag, scheme) for tag in tags), OUTSIDE]
    first = 1
    for after in range(2, len(words)):
        if words[after][0] in "IE" and words[after - 1][0] in "BI" and words[after][1] == words[after - 1][1]:
            continue
        if words[first] != OUTSIDE:
            start = _start(words, first, after, scheme)
            if start < after:
                yield words[start][1], start - 1, after - 2
        first = after


def _word(tag: str, scheme: str) -> Word:
    prefix, _, kind = tag.partition("-")
    if prefix not in PREFIXES[scheme]:
        known = ", ".join(f"{known}-TYPE" for known in sorted(PREFIXES[scheme] - {"O"}))
        raise UserError(f"`{tag}` is not a tag of an entity.", f"Tags are O, {known}.")
    return (prefix, kind or "_") if prefix != "O" else OUTSIDE


def _start(words: list[Word], first: int, after: int, scheme: str) -> int:
    """Where the entity in the run of words from `first` to before `after` starts; `after` if there is none."""
    prefix, kind = words[first]
    if scheme in ENDS:
        return first if prefix + words[after - 1][0] in ENDS[scheme] else after
    if scheme == "IOB1" and prefix == "B":  # only to part two entities of a type; seqeval passes over any other B
        if words[first - 1][0] == "O" or words[first - 1][1] != kind:
            return first + 1
        if after == first + 1 and words[after][0] == "B" and words[after][1] != kind:
            return after
    return first


def _scores(name: str, both: int, predicted: int, true: int) -> dict[str, float]:
    """Where nothing was predicted, or nothing is true, the score is 0."""
    return {
        f"{name}f1": 100 * 2 * both / max(predicted + true, 1),
        f"{name}precision": 100 * both / max(predicted, 1),
        f"{name}recall": 100 * both / max(true, 1),
    }
