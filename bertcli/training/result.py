"""The result of a training run."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from bertcli.data.json_files import read_json
from bertcli.data.results import Result, Rows
from bertcli.errors import quoted

PRETRAINING = "pretraining"  # the task of a run that has none
CROSS_VALIDATED = "cross_validated"  # the split of a run that was trained on all examples
GUESS, BAG_OF_WORDS = "guess", "bag_of_words"  # what a fine-tuned model is compared with


@dataclass(frozen=True, kw_only=True)
class TrainingResult(Result):
    """A finished run: its folder, losses, speed and scores."""

    run: str = ""  # empty for a dry run
    model: str = ""
    task: str
    steps: int = 0
    tokens_per_second: float = 0.0  # over all processes, without padding and without the first steps
    losses: list[float] = field(default_factory=list)  # the mean of each log interval
    metrics: dict[str, float] = field(default_factory=dict)
    baseline: dict[str, dict[str, Any]] = field(default_factory=dict)  # scores of the guess and of a bag of words
    seed: int
    split: str = ""
    share_of_peak: float = 0.0  # of the FLOPs that the devices can do
    peak: str = ""  # that figure, and where it is from
    best_step: int = 0  # the step of the checkpoint that was kept, where there is a dev set
    advice: str = ""  # what to type where nothing was learnt
    next: list[str] = field(default_factory=list)  # what may be typed next
    notes: list[str] = field(default_factory=list)  # what the model card says below the scores
    data: dict[str, dict[str, Any]] = field(default_factory=dict)  # how each split was read
    words: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  # of a pre-training: accuracy by type of token
    stopped_early: bool = False  # by --patience
    collapsed: bool = False  # the kept checkpoint gives the same answer for every dev example
    runs: list[dict[str, Any]] = field(default_factory=list)  # of --seeds, --grid, ...; other fields are of the best
    spread: list[dict[str, Any]] = field(default_factory=list)  # over the seeds of each setting

    @property
    def rows(self) -> Rows:
        """A row a metric, with the scores of the guess and the bag of words; after a sweep those of the best run."""
        about = {"run": self.run, "task": self.task, "split": self.split, "seed": self.seed}
        beside = {name: found["metrics"] for name, found in self.baseline.items()}
        return [
            {**about, "metric": metric, "score": score, **{name: each.get(metric) for name, each in beside.items()}}
            for metric, score in self.metrics.items()
        ]

    @classmethod
    def read(cls, folder: Path) -> TrainingResult:
        """Read the result of a finished run."""
        hint = f"Restore it, or finish the run again: rm {quoted(folder / 'result.json')}; then its command with --resume --out {quoted(folder)}"
        values = read_json(folder / "result.json", hint, task=str, seed=int, metrics=dict)
        return cls(**{each.name: values[each.name] for each in fields(cls) if each.name in values})
