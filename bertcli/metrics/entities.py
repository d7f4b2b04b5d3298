"""Precision, recall and F1 of entities, times 100, as conlleval and seqeval define them."""

from typing import Any

from numpy.typing import NDArray
from scipy.sparse import csr_array

from bertcli.errors import UserError
from bertcli.metrics.counts import add_up, count_labels, f1_of, precision_of
from bertcli.metrics.metric import Metric, Weighted
from bertcli.metrics.tags import entities


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
                what = f"Sentence {number} has {len(truth)} words, but {len(guess)} predicted tags."
                raise UserError(what, "Give one tag a word.")
            found, wanted = (set(entities(tags, self.config_name)) for tags in (guess, truth))
            sentences.append([[kind for kind, _, _ in side] for side in (found & wanted, found, wanted)])
        types = sorted({kind for sides in sentences for side in sides for kind in side})
        number_of = {kind: number for number, kind in enumerate(types)}
        numbers = ([[number_of[kind] for kind in side] for side in sides] for sides in sentences)
        return count_labels(numbers, len(types)), types

    def weighted(self, predictions: Any, references: Any) -> Weighted:
        counts, types = self.counts(predictions, references)

        def scores(weights: NDArray[Any]) -> dict[str, NDArray[Any]]:
            sides = add_up(counts, weights)
            found = _scores("", *sides.sum(-1))
            for number, kind in enumerate(types):
                found |= _scores(f"{kind}_", *sides[..., number])
            return found

        return scores


def _scores(name: str, right: NDArray[Any], predicted: NDArray[Any], true: NDArray[Any]) -> dict[str, NDArray[Any]]:
    return {
        f"{name}f1": f1_of(right, predicted, true),
        f"{name}precision": precision_of(right, predicted),
        f"{name}recall": precision_of(right, true),
    }
