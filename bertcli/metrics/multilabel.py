"""F1 of examples that may have several labels, times 100, as scikit-learn defines it."""

from typing import Any

import numpy as np
from scipy.sparse import csr_array

from bertcli.metrics.counts import Array, add_up, f1_of
from bertcli.metrics.metric import Metric, Weighted


class MultiLabel(Metric):
    """F1 over all decisions, its mean over labels, and the share of examples with all labels right."""

    takes = ("numbers", "numbers")

    def counts(self, predictions: Any, references: Any) -> csr_array:
        """How often each label is right, predicted and true in each example, [examples, 3 x labels]."""
        given, wanted = np.array(predictions, dtype=bool), np.array(references, dtype=bool)
        return csr_array(np.concatenate([given & wanted, given, wanted], axis=1).astype(np.float64))

    def weighted(self, predictions: Any, references: Any) -> Weighted:
        """The scores as a function of the weights of the examples."""
        counts = self.counts(predictions, references)
        all_right = (np.array(predictions) == np.array(references)).all(-1)

        def scores(weights: Array) -> dict[str, Array]:
            sides = add_up(counts, weights)
            return {
                "micro_f1": f1_of(*sides.sum(-1)),
                "macro_f1": f1_of(*sides).mean(-1),
                "subset_accuracy": weights @ all_right / weights.sum(-1),
            }

        return scores
