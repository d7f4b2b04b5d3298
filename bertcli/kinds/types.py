"""Short names of the types that kinds of task use; what they name is imported for type checking only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from bertcli.data.labelled.examples import Examples
from bertcli.tasks.task import Task

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor
    from transformers import PretrainedConfig, PreTrainedModel

    from bertcli.data.packing.batches import Packable, PackedBatch
    from bertcli.data.packing.windows import WindowRules
    from bertcli.data.text.tokenization import WordPiece
    from bertcli.models.model_with_loss import Outputs as OutputsOfModel

    class Features(Packable, Protocol):
        """Encoded examples."""

        @property
        def truncated(self) -> int:
            """Number of inputs that were longer than the limit and were cut."""


Saved: TypeAlias = "PretrainedConfig"  # the config.json of a saved model
Model: TypeAlias = "PreTrainedModel"
Batch: TypeAlias = "PackedBatch"
Rules: TypeAlias = "WindowRules"
Tokenizer: TypeAlias = "WordPiece"
Outputs: TypeAlias = "OutputsOfModel"
Logits: TypeAlias = "Tensor"
Labels: TypeAlias = "NDArray[Any]"  # as numbers
Floats: TypeAlias = "NDArray[np.float64]"
LinearHead: TypeAlias = "tuple[Floats, Floats]"  # weights, [C, H], and biases, [C]
Row = dict[str, Any]  # a request of `bert predict`
Span = tuple[str, int, int]  # label, first word, last word
Prediction = dict[str, Any]  # what a model says of an example, by the keys that `bert predict --json` prints
Predictions = list[Prediction]
Compared = dict[str, list[Any]]  # what a metric takes: `predictions` and `references`, an entry an example
ModelOutputs = dict[str, list[Any]]  # each output of the head as arrays, in the order of the examples
Mistake = tuple[Any, Prediction]  # how bad it is, greater is worse, and what is shown of it
Mistakes = Iterator[Mistake]
LabelScores = tuple[dict[str, dict[str, float]], list[list[int]]]  # precision ... by label, and the confusion matrix
Confidences = list[tuple[float, bool]]  # the probability of a decision, and whether it was right
OwnData = tuple[Task, dict[str, Examples]]  # a task of the user's own files, and the examples of each split
