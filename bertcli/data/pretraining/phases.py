"""Pre-training data of a run's phases: some steps on inputs of one length, then others on those of another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bertcli.errors import UserError

if TYPE_CHECKING:
    from bertcli.data.packing.batches import Packable, PackedBatch
    from bertcli.data.pretraining.shards import PretrainingExamples

FORM = "Give lengths, and shares of the steps that sum to 1: --phases 128:0.9,512:0.1"


def parse_phases(given: str, steps: int) -> list[tuple[int | None, range]]:
    """The lengths and the steps of `128:0.9,512:0.1`. Raises UserError if it has another form, or a phase no step."""
    try:
        pairs = [each.split(":") for each in given.split(",")]
        lengths, shares = [int(length) for length, _ in pairs], [float(share) for _, share in pairs]
    except ValueError:
        raise UserError(f"--phases takes LENGTH:SHARE,LENGTH:SHARE, not `{given}`.", FORM) from None
    if min(lengths) < 1 or not min(shares) > 0 or not math.isclose(sum(shares), 1, abs_tol=1e-6):
        raise UserError(f"--phases {given} has a length below 1, or shares that do not sum to 1.", FORM)
    ends = [0, *(round(steps * share) for share in accumulate(shares))]
    phases = [range(first, end) for first, end in pairwise(ends)]
    if not all(phases):
        raise UserError(f"--phases {given} has a phase with no steps, of {steps:,} in total.", "Give more --steps.")
    return list(zip(lengths, phases, strict=True))


@dataclass(frozen=True)
class Phase:
    """Some steps of a run, counted from 0, and the data that they are trained on."""

    steps: range
    examples: PretrainingExamples

    def epochs(self, batch_size: int) -> float:
        """How often each row of the data is trained on."""
        return len(self.steps) * batch_size / len(self.examples)

    def facts(self) -> dict[str, object]:
        """The phase as metrics.jsonl has it; steps are counted from 1 there."""
        steps = {"first_step": self.steps.start + 1, "last_step": self.steps.stop}
        return {**steps, "max_seq_length": self.examples.max_seq_length, "data": str(self.examples.folder)}

    def step_cost(self, hidden_size: int) -> float:
        """What a step costs beside those of the other phases: the work of the layers on its tokens, attention included."""
        tokens = float(self.examples.manifest["tokens"]) / float(self.examples.manifest["instances"])
        return tokens * (6 * hidden_size + tokens)  # see training/throughput.py


@dataclass(frozen=True)
class PhasedExamples:
    """The rows of several data, one after another; the step decides which are trained on, so that resuming needs no state."""

    parts: Sequence[Packable]
    phases: Sequence[Phase]  # of each part

    @cached_property
    def starts(self) -> list[int]:
        """The number of the first row of each part."""
        return [0, *accumulate(len(part.lengths) for part in self.parts[:-1])]

    @property
    def lengths(self) -> PhasedLengths:
        """Tokens of each row."""
        return PhasedLengths(self)

    def part_of(self, rows: NDArray[np.int64]) -> tuple[Packable, NDArray[np.int64]]:
        """The part that the rows of a step are in, and their numbers in it."""
        part = int(np.searchsorted(self.starts, rows[0], side="right")) - 1
        return self.parts[part], rows - self.starts[part]

    def rows_of_step(self, seed: int, step: int, batch_size: int) -> NDArray[np.int64]:
        """The rows of the batch of one step; the order of each phase begins with its first step."""
        of_step = next(number for number, phase in enumerate(self.phases) if step < phase.steps.stop)
        first = self.phases[of_step].steps.start
        return self.parts[of_step].rows_of_step(seed, step - first, batch_size) + self.starts[of_step]

    def pack(self, rows: NDArray[np.int64], key: int) -> PackedBatch:
        """Pack the chosen rows of one part, under their numbers in it."""
        part, own = self.part_of(rows)
        return part.pack(own, key)


class PhasedLengths:
    """Tokens of each row, read when they are asked for."""

    def __init__(self, examples: PhasedExamples) -> None:
        self.examples = examples

    def __len__(self) -> int:
        return sum(len(part.lengths) for part in self.examples.parts)

    def __getitem__(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        part, own = self.examples.part_of(rows)
        return part.lengths[own]
