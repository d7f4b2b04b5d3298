"""A metric: a module of `evaluate` whose examples may be weighted."""

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
        return evaluate.MetricInfo(
            description=str(self.__doc__),
            citation="",
            inputs_description=f"Predictions and references: {self.takes}.",
            features=datasets.Features({"predictions": prediction, "references": reference}),
        )

    def _compute(self, predictions: Any, references: Any, **more: Any) -> dict[str, float]:
        scores = self.weighted(predictions, references, **more)(np.ones((1, len(references))))
        return {name: 100 * float(values[0]) for name, values in scores.items()}

    def weighted(self, predictions: Any, references: Any) -> Weighted:
        """The scores as a function of the weights of the examples."""
        raise NotImplementedError
