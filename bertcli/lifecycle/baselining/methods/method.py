"""What each method defines: for each kind of task that it can do, what is fitted to the examples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from bertcli.config.baselines import BaselineConfig
from bertcli.data.labelled.examples import Examples
from bertcli.data.text.documents import find_text_files
from bertcli.kinds import KINDS
from bertcli.kinds.types import Predictions
from bertcli.lifecycle.sources import Setup
from bertcli.tasks.task import Task

Floats = NDArray[np.float32]  # as they are saved

# N examples, or inputs where an example has several; H features; C labels


@dataclass(frozen=True)
class Fitting(Setup):
    """A request for a baseline, with its data."""

    config: BaselineConfig
    lines: list[dict[str, Any]] = field(default_factory=list)  # of metrics.jsonl, where it is trained in steps

    @property
    def losses(self) -> list[float]:
        """The losses in the lines of metrics."""
        return [line["loss"] for line in self.lines if "loss" in line]


@dataclass(frozen=True)
class Baseline(ABC):
    """What a method has fitted. Its fields are what is saved: arrays, and plain values of JSON."""

    is_constant: ClassVar[bool] = False  # whether one answer for all inputs is what is meant
    json_types: ClassVar[Mapping[str, type]] = {}  # of the fields that are no arrays
    needs_dev: ClassVar[bool] = False  # whether it is trained in steps, of which the best on dev is kept

    @classmethod
    def check(cls, config: BaselineConfig) -> None:
        """Raise UserError if the text for its vectors, or a package that fits it, is missing."""
        if config.vectors_text:
            find_text_files(config.vectors_text)

    @classmethod
    @abstractmethod
    def fit(cls, setup: Fitting) -> Self:
        """Fit it to the training examples."""

    @abstractmethod
    def predict(self, task: Task, examples: Examples) -> Predictions:
        """One prediction per example, in the form of the kind."""

    @classmethod
    def array_names(cls) -> list[str]:
        """The fields that are arrays."""
        return [each.name for each in fields(cls) if each.name not in cls.json_types]

    def is_sound(self, task: Task) -> bool:
        """Whether the sizes of its fields go together, and with the labels of a task."""
        return True

    def notes(self, task: Task) -> list[str]:
        """What its model card says of what was fitted."""
        return []


@dataclass(frozen=True)
class Method:
    """A method by its name, and what it fits for each kind of task."""

    name: str
    fits: Mapping[str, type[Baseline]]  # by the name of the kind
    explained: str  # one sentence, for the model card

    def __post_init__(self) -> None:
        """Check the names of kinds."""
        assert self.fits.keys() <= KINDS.keys()
