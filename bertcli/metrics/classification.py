"""Accuracy, F1 and Matthews correlation, times 100, as scikit-learn defines them."""

from typing import Any

import numpy as np
from scipy.sparse import csr_array

from bertcli.metrics.counts import Array, add_up, count_labels, f1_of
from bertcli.metrics.metric import Metric, Weighted


class Classification(Metric):
    """Scores of predicted label numbers; `f1` is of label 1 and only given for two labels."""

    takes = ("number", "number")

    def counts(self, predictions: Any, references: Any, labels: int = 0) -> csr_array:
        """How often each label is right, predicted and true in each example, [examples, 3 x labels]."""
        examples = (
            ([one] if one == two else [], [one], [two]) for one, two in zip(predictions, references, strict=True)
        )
        return count_labels(examples, max(labels, 1 + max([*predictions, *references])))

    def weighted(self, predictions: Any, references: Any) -> Weighted:
        """The scores as a function of the weights of the examples."""
        counts = self.counts(predictions, references, 2)

        def scores(weights: Array) -> dict[str, Array]:
            right, predicted, true = add_up(counts, weights)
            total = true.sum(-1)
            f1 = f1_of(right, predicted, true)
            occurs = predicted + true > 0
            by_chance = (predicted * true).sum(-1)
            spread = (total**2 - (predicted**2).sum(-1)) * (total**2 - (true**2).sum(-1))
            return {
                "accuracy": right.sum(-1) / total,
                "macro_f1": f1.sum(-1) / occurs.sum(-1),
                # 0 where every prediction or every label is the same
                "matthews_correlation": (right.sum(-1) * total - by_chance)
                / np.sqrt(np.where(spread > 0, spread, np.inf)),
                **({"f1": f1[:, 1]} if counts.shape[1] == 6 else {}),
            }

        return scores
