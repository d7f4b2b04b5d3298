"""Scores of one label or several, times 100, as scikit-learn defines them."""

from typing import Any

import numpy as np
from scipy.sparse import csr_array

from bertcli.metrics.counts import add_up, count_labels, f1_of, macro_f1_of
from bertcli.metrics.metric import Array, Metric, Weighted


class Classification(Metric):
    """Accuracy, F1 and Matthews correlation of label numbers; `f1` is of label 1 and only given for two labels."""

    takes = ("number", "number")

    def counts(self, predictions: Any, references: Any, labels: int = 0) -> csr_array:
        """How often each label is right, predicted and true in each example, [examples, 3 x labels]."""
        pairs = zip(predictions, references, strict=True)
        examples = (([given] if given == true else [], [given], [true]) for given, true in pairs)
        return count_labels(examples, max(labels, 1 + max([*predictions, *references])))

    def weighted(self, predictions: Any, references: Any) -> Weighted:
        counts = self.counts(predictions, references, 2)

        def scores(weights: Array) -> dict[str, Array]:
            right, predicted, true = add_up(counts, weights)
            total = true.sum(-1)
            by_chance = (predicted * true).sum(-1)
            spread = (total**2 - (predicted**2).sum(-1)) * (total**2 - (true**2).sum(-1))
            spread = np.where(spread > 0, spread, np.inf)  # where every prediction or every label is the same: score 0
            return {
                "accuracy": right.sum(-1) / total,
                "macro_f1": macro_f1_of(right, predicted, true),
                "matthews_correlation": (right.sum(-1) * total - by_chance) / np.sqrt(spread),
                **({"f1": f1_of(right, predicted, true)[:, 1]} if counts.shape[1] == 6 else {}),
            }

        return scores


class MultiLabel(Metric):
    """F1 over all decisions, its mean over labels, and the proportion of examples with all labels right."""

    takes = ("numbers", "numbers")

    def counts(self, predictions: Any, references: Any) -> csr_array:
        """How often each label is right, predicted and true in each example, [examples, 3 x labels]."""
        given, wanted = np.array(predictions, dtype=bool), np.array(references, dtype=bool)
        return csr_array(np.concatenate([given & wanted, given, wanted], axis=1).astype(np.float64))

    def weighted(self, predictions: Any, references: Any) -> Weighted:
        counts = self.counts(predictions, references)
        all_right = (np.array(predictions) == np.array(references)).all(-1)

        def scores(weights: Array) -> dict[str, Array]:
            sides = add_up(counts, weights)
            f1 = {"micro_f1": f1_of(*sides.sum(-1)), "macro_f1": f1_of(*sides).mean(-1)}
            return f1 | {"subset_accuracy": weights @ all_right / weights.sum(-1)}

        return scores
