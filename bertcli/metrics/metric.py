"""A metric: a module of `evaluate` whose examples may be weighted; and confidence intervals by the percentile bootstrap."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import datasets
import numpy as np
from numpy.typing import NDArray

from bertcli.metrics.lean_evaluate import import_evaluate

if TYPE_CHECKING:
    import evaluate
else:
    evaluate = import_evaluate()

RESAMPLES = 1000
CONFIDENCE = 95  # per cent
SHARES = ("accuracy", "exact_match")  # the scores that are shares of examples
NUMBERS_AT_ONCE = 4_000_000  # weights held in memory
Array = NDArray[Any]
# Weights of the examples [resamples, examples] -> scores from 0 to 1, each [resamples]. A weight is a number of copies.
Weighted = Callable[[Array], dict[str, Array]]
FEATURES = {
    "number": datasets.Value("int64"),
    "value": datasets.Value("float64"),
    "text": datasets.Value("string"),
    "numbers": datasets.Sequence(datasets.Value("int64")),
    "texts": datasets.Sequence(datasets.Value("string")),
}


class Metric(evaluate.Metric):  # type: ignore[misc]
    """Scores of predictions and references, times 100."""

    takes: ClassVar[tuple[str, str]]  # what a prediction is and what a reference, by FEATURES

    def _info(self) -> evaluate.MetricInfo:
        prediction, reference = (FEATURES[name] for name in self.takes)
        inputs = f"Predictions and references: {self.takes}."
        features = datasets.Features({"predictions": prediction, "references": reference})
        return evaluate.MetricInfo(str(self.__doc__), citation="", inputs_description=inputs, features=features)

    def _compute(self, predictions: Any, references: Any, **more: Any) -> dict[str, float]:
        scores = self.weighted(predictions, references, **more)(np.ones((1, len(references))))
        return {name: 100 * float(values[0]) for name, values in scores.items()}

    def weighted(self, predictions: Any, references: Any) -> Weighted:
        """The scores as a function of the weights of the examples."""
        raise NotImplementedError


def resampled_scores(weighted: Weighted, examples: int, seed: int = 0) -> dict[str, Array]:
    """The scores, times 100, of 1,000 resamples of the examples with replacement, [resamples] (Efron 1979).

    The resamples depend only on the number of examples and the seed, so two models are compared on the same ones.
    """
    draw = np.random.default_rng(seed)
    at_once = max(1, NUMBERS_AT_ONCE // examples)
    parts = []
    for start in range(0, RESAMPLES, at_once):
        rows = draw.integers(examples, size=(min(at_once, RESAMPLES - start), examples), dtype=np.int32)
        parts.append(weighted(np.stack([np.bincount(row, minlength=examples) for row in rows]).astype(np.float64)))
    return {name: 100 * np.concatenate([part[name] for part in parts]) for name in parts[0]}


def confidence_interval(scores: Array) -> list[float]:
    """The ends of the middle 95 % of resampled scores, or of the differences between two models."""
    tail = (100 - CONFIDENCE) / 2
    return [round(float(end), 6) for end in np.percentile(scores, [tail, 100 - tail])]


def interval_of_score(scores: Array, examples: int, is_share: bool = True) -> list[float]:
    """The interval of a score of so many examples, perhaps the share of those that are right.

    Where all are right, so are all resamples; then its lower end is that of Clopper and Pearson (1934), the score of
    which all of so many examples are right in 2.5 % of cases. Where none is, its upper end is found likewise.
    """
    rare = 100 * ((100 - CONFIDENCE) / 200) ** (1 / examples)
    if scores.min() >= 100:
        return [round(rare, 6), 100.0]
    return [0.0, round(100 - rare, 6)] if is_share and not scores.any() else confidence_interval(scores)


def paired_difference(difference: float, resampled: Array) -> dict[str, Any]:
    """A difference between two scores on the same examples, with its interval; significant if that excludes 0."""
    low, high = confidence_interval(resampled)
    return {"difference": round(difference, 6), "confidence_interval": [low, high], "significant": low > 0 or high < 0}
