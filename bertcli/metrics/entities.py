"""Precision, recall and F1 of entities, times 100, as conlleval and seqeval define them."""

from collections.abc import Iterator
from typing import Any

from numpy.typing import NDArray
from scipy.sparse import csr_array

from bertcli.errors import UserError
from bertcli.metrics.counts import add_up, count_labels, f1_of, precision_of
from bertcli.metrics.metric import Metric, Weighted

Entity = tuple[str, int, int]  # type, first word, last word
Word = tuple[str, str]  # prefix, type
OUTSIDE = ("O", "_")
PREFIXES = {"default": set("OBIES"), "IOB1": set("OBI"), "IOB2": set("OBI"), "IOBES": set("OBIES")}
ALIASES = {"L": "E", "U": "S", "M": "I"}  # BILOU and BMES
# How an entity begins and ends where the scheme is strict.
ENDS = {"IOB2": {"BB", "BI"}, "IOBES": {"BE", "SS"}}


class Entities(Metric):
    """Scores over all entities and of each type; IOB1, IOB2, IOBES, BILOU and BMES are read leniently, as conlleval.pl does.

    `Entities("IOB2")` (or "IOB1", "IOBES") is strict, as seqeval's: an entity that breaks the scheme is none.
    """

    takes = ("texts", "texts")

    def counts(self, predictions: Any, references: Any) -> tuple[csr_array, list[str]]:
        """How often each type of entity is right, predicted and true in each sentence, [sentences, 3 x types]; the types."""
        sentences = []
        for number, (guess, truth) in enumerate(zip(predictions, references, strict=True), 1):
            if len(guess) != len(truth):
                raise UserError(
                    f"Sentence {number} has {len(truth)} words, but {len(guess)} predicted tags.",
                    "Give one tag a word.",
                )
            found, wanted = (set(entities(tags, self.config_name)) for tags in (guess, truth))
            sentences.append([[kind for kind, _, _ in side] for side in (found & wanted, found, wanted)])
        types = sorted({kind for sides in sentences for side in sides for kind in side})
        number_of = {kind: number for number, kind in enumerate(types)}
        numbers = ([[number_of[kind] for kind in side] for side in sides] for sides in sentences)
        return count_labels(numbers, len(types)), types

    def weighted(self, predictions: Any, references: Any) -> Weighted:
        """The scores as a function of how often each sentence counts."""
        counts, types = self.counts(predictions, references)

        def scores(weights: NDArray[Any]) -> dict[str, NDArray[Any]]:
            sides = add_up(counts, weights)
            found = _scores("", *sides.sum(-1))
            for number, kind in enumerate(types):
                found |= _scores(f"{kind}_", *sides[..., number])
            return found

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
    prefix = ALIASES.get(prefix, prefix) if scheme == "default" else prefix
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


def _scores(name: str, right: NDArray[Any], predicted: NDArray[Any], true: NDArray[Any]) -> dict[str, NDArray[Any]]:
    return {
        f"{name}f1": f1_of(right, predicted, true),
        f"{name}precision": precision_of(right, predicted),
        f"{name}recall": precision_of(right, true),
    }
