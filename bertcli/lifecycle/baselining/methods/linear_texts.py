"""A linear head on the vectors of texts, which each method makes in its own way."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from bertcli.data.labelled.examples import Examples, TextExamples
from bertcli.kinds import KINDS
from bertcli.kinds.choice import CHOICE
from bertcli.kinds.classification import CLASSIFICATION
from bertcli.kinds.multilabel import MULTILABEL
from bertcli.kinds.regression import REGRESSION
from bertcli.kinds.text import TextKind
from bertcli.kinds.types import Labels, Predictions
from bertcli.lifecycle.baselining.methods.method import Baseline, Fitting, Floats
from bertcli.tasks.task import Task

if TYPE_CHECKING:
    from collections.abc import Sequence

STRENGTH = 10.0  # inverse strength of regularization
WORD_KINDS = tuple(kind.name for kind in KINDS.values() if kind.reads_words)
TEXT_KINDS = (CLASSIFICATION.name, REGRESSION.name, MULTILABEL.name, CHOICE.name)
Input = tuple[str, ...]  # one text or two
CHARACTERS_AT_ONCE = 2**22  # of texts whose vectors are in memory at a time, when they are predicted


def inputs_of(examples: TextExamples) -> list[Input]:
    """Each text, text and second text, or text and choice; an example with choices has several."""
    if examples.choices is not None:
        pairs = zip(examples.texts, examples.choices, strict=True)
        return [(text, choice) for text, choices in pairs for choice in choices]
    return list(zip(*[examples.texts, *([examples.pairs] if examples.pairs is not None else [])], strict=True))


def texts_of(examples: TextExamples) -> list[str]:
    """Each input as one text, the second part behind the first."""
    return [" ".join(parts) for parts in inputs_of(examples)]


def per_example(examples: TextExamples, logits: Any) -> list[Any]:
    """The logits of the inputs, [N, C], by example: [C], or those of its choices."""
    if examples.choices is None:
        return list(logits)
    return np.split(logits[:, 0], np.cumsum([len(choices) for choices in examples.choices])[:-1])


@dataclass(frozen=True)
class LinearTexts(Baseline):
    """Weights and biases for the vectors of texts: logistic regression, or ridge regression for values."""

    weights: Floats  # [C, H]
    biases: Floats  # [C]

    @abstractmethod
    def vectors(self, inputs: Sequence[Input]) -> Any:
        """The vectors of inputs, [N, H], dense or sparse."""

    def predict(self, task: Task, examples: Examples) -> Predictions:
        """One prediction per example."""
        kind, texts = cast(TextKind, KINDS[task.kind]), cast(TextExamples, examples)
        return [kind.predict(task.labels, logits) for logits in per_example(texts, self.logits(inputs_of(texts)))]

    def logits(self, inputs: Sequence[Input]) -> Any:
        """The outputs of the head for inputs, [N, C]."""
        from bertcli.data.text.tables import chunks_of

        parts = chunks_of(inputs, CHARACTERS_AT_ONCE, lambda parts: sum(map(len, parts)))
        found = [self.vectors(part) @ self.weights.T.astype(np.float64) + self.biases for part in parts]
        return np.concatenate(found) if found else np.zeros((0, len(self.biases)))

    def is_sound(self, task: Task) -> bool:
        """Whether each label has a weight for every feature, and a bias."""
        outputs = (len(task.labels) if KINDS[task.kind].names_outputs else 1,)
        return self.biases.shape == outputs and self.weights.shape == outputs + self.weights.shape[1:]


def fit_linear(setup: Fitting, vectors: Any) -> dict[str, Floats]:
    """The weights and the biases fitted to the vectors of the training examples, [N, H]."""
    task, kind = setup.task, cast(TextKind, setup.kind)
    targets = cast(Labels, kind.targets(task, cast(TextExamples, setup.train.examples)))
    weights, biases = kind.fit_head(vectors, targets, len(task.labels) if kind.names_outputs else 1, STRENGTH)
    return {"weights": weights.astype(np.float32), "biases": biases.astype(np.float32)}
