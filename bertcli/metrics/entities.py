"""Precision, recall and F1 of entities, times 100, as conlleval and seqeval define them."""

from typing import Any

from scipy.sparse import csr_array

from bertcli.errors import UserError
from bertcli.metrics.counts import add_up, count_labels, f1_of, macro_f1_of, precision_of
from bertcli.metrics.metric import Array, Metric, Weighted
from bertcli.metrics.tags import entities


class Entities(Metric):
    """Scores over all entities and of each type; IOB1, IOB2, IOBES, BILOU and BMES are read leniently, as conlleval.pl does.

    `Entities("IOB2")` (or "IOB1", "IOBES") is strict, as seqeval's: an entity that breaks the scheme is none.
    """

    takes = ("texts", "texts")

    def counts(self, predictions: Any, references: Any) -> tuple[csr_array, list[str]]:
        """How often each type is right, predicted and true in each sentence, [sentences, 3 x types]; the types."""
        pairs = list(zip(predictions, references, strict=True))
        for number, (predicted, true) in enumerate(pairs, 1):
            if len(predicted) != len(true):
                what = f"Sentence {number} has {len(true)} words, but {len(predicted)} predicted tags."
                raise UserError(what, "Give one tag per word.")
        sentences = [self._types(predicted, true) for predicted, true in pairs]
        types = sorted({kind for sides in sentences for side in sides for kind in side})
        number_of = {kind: number for number, kind in enumerate(types)}
        numbers = ([[number_of[kind] for kind in side] for side in sides] for sides in sentences)
        return count_labels(numbers, len(types)), types

    def _types(self, predicted: list[str], true: list[str]) -> list[list[str]]:
        """The types of the entities of a sentence that are right, predicted and true."""
        found, wanted = (set(entities(tags, self.config_name)) for tags in (predicted, true))
        return [[kind for kind, _, _ in side] for side in (found & wanted, found, wanted)]

    def weighted(self, predictions: Any, references: Any) -> Weighted:
        counts, types = self.counts(predictions, references)

        def scores(weights: Array) -> dict[str, Array]:
            sides = add_up(counts, weights)
            by_type = (_scores(f"{kind}_", *sides[..., number]) for number, kind in enumerate(types))
            return {name: score for found in (_scores("", *sides.sum(-1)), *by_type) for name, score in found.items()}

        return scores


class WordLabels(Entities):
    """Proportion of words whose label is right, and the mean F1 of the labels; each word is an entity of its label."""

    def _types(self, predicted: list[str], true: list[str]) -> list[list[str]]:
        """The labels of a sentence that are right, predicted and true."""
        return [[tag for tag, other in zip(predicted, true, strict=True) if tag == other], predicted, true]

    def weighted(self, predictions: Any, references: Any) -> Weighted:
        counts, _ = self.counts(predictions, references)

        def scores(weights: Array) -> dict[str, Array]:
            right, predicted, true = add_up(counts, weights)
            return {"accuracy": right.sum(-1) / true.sum(-1), "macro_f1": macro_f1_of(right, predicted, true)}

        return scores


def _scores(name: str, right: Array, predicted: Array, true: Array) -> dict[str, Array]:
    precision, recall = precision_of(right, predicted), precision_of(right, true)
    return {f"{name}f1": f1_of(right, predicted, true), f"{name}precision": precision, f"{name}recall": recall}
