"""The result of a training run."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class TrainingResult:
    """A finished run: where it is, how it went, what it scored."""

    run: str = ""  # empty after a dry run
    model: str = ""
    task: str
    steps: int = 0
    tokens_per_second: float = 0.0  # real tokens over all processes, without the first steps
    losses: list[float] = field(default_factory=list)  # the mean of each log interval
    metrics: dict[str, float] = field(default_factory=dict)
    seed: int
    split: str = ""
    share_of_peak: float = 0.0  # FLOPs, without the first steps
    peak: str = ""  # its value and source
    best_step: int = 0  # of the checkpoint that was kept, if there is a dev set
    stopped_early: bool = False  # patience ran out
    collapsed: bool = False  # the kept checkpoint predicts the same for every dev example
    runs: list[dict[str, Any]] = field(
        default_factory=list
    )  # of --seeds and --grid; the other fields are those of the best
    spread: list[dict[str, Any]] = field(default_factory=list)  # over the seeds of each setting

    @classmethod
    def read(cls, folder: Path) -> TrainingResult:
        """Read the result of a finished run."""
        return cls(**json.loads((folder / "result.json").read_text(encoding="utf-8")))
