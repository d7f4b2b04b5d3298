"""What reports and model cards show of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bertcli.reports.evaluation import Evaluation
from bertcli.reports.tables import Table, score_table
from bertcli.training.result import BAG_OF_WORDS, GUESS, TrainingResult

COUNTED = {  # of a split, in words
    "examples": "examples",
    "skipped": "rows skipped",
    "duplicates": "repeated in it",
    "in_train": "also in train",
    "cut": "cut",
}
WIDE = 5.0  # points between the ends of an interval, from which on it is told
NOT_OPTIONS = {"command", "out", "resume", "data_digests", "data_digest", "cross_validated"}
NOT_OPTIONS |= {"split_seed", "label_form", "unit"}


@dataclass(frozen=True)
class Answers:
    """What the kind of a task says of the answers of a run."""

    in_words: str
    confidences: Sequence[tuple[float, bool]] = ()
    error_types: dict[str, int] = field(default_factory=dict)  # how many answers are right, or wrong in which way
    values: Sequence[tuple[float, float]] = ()  # true and predicted


@dataclass(frozen=True)
class RunRecord:
    """A run, read from its files."""

    path: Path
    config: dict[str, Any]
    environment: dict[str, Any]
    result: TrainingResult
    lines: list[dict[str, Any]]  # of metrics.jsonl
    command: str  # which repeats it
    evaluation: Evaluation | None = None  # of the predictions that it has kept
    answers: Answers | None = None
    missing: Sequence[str] = ()  # what cannot be shown, and why
    verdict: str = ""  # the result in words, where the objective gives them
    label: str = ""  # its name beside others with the same one

    @property
    def name(self) -> str:
        """The name of its folder, or what tells it from another."""
        return self.label or self.path.resolve().name

    @property
    def scores(self) -> Table:
        """Its scores beside the paper's and those of the baselines, with intervals where its predictions are known."""
        result, intervals = self.result, self.evaluation.confidence_intervals if self.evaluation else None
        return score_table(result.task, result.split, result.metrics, intervals, result.baseline)

    @property
    def options(self) -> dict[str, Any]:
        """Its options that are set."""
        options = ((name, value) for name, value in self.config.items() if name not in NOT_OPTIONS)
        return {name: value for name, value in options if value is not None and value is not False}

    @property
    def sentence(self) -> str:
        """The result in one sentence that needs no knowledge of metrics."""
        result = self.result
        if not result.metrics:
            return "It has no scores."
        if self.verdict:
            return self.verdict
        metric, score = next(iter(result.metrics.items()))
        nothing = "It has learnt nothing and always gives the same answer: " if result.collapsed else ""
        if self.answers is None:
            where = result.split.replace("_", "-") or "the evaluation data"
            return _after(nothing, f"On {where} its {_plain(metric)} is {score:.1f}.")
        others = {"a bag of words": BAG_OF_WORDS, "one answer for all": GUESS}
        known = {words: result.baseline[name]["metrics"] for words, name in others.items() if name in result.baseline}
        beside = [f"that of {words} {metrics[metric]:.1f}" for words, metrics in known.items()]
        paper = [] if self.evaluation is None else list(self.evaluation.paper.items())
        beside += [f"that of the paper's base model {value:.1f}" for name, value in paper if name == f"base {metric}"]
        words = _after(nothing, self.answers.in_words)
        return f"{words}; its {_plain(metric)} is {', '.join([f'{score:.1f}{self._how_surely(metric)}', *beside])}."

    def _how_surely(self, metric: str) -> str:
        """In brackets: how many examples were trained on, from a tenth of them on; else the interval, if it is wide."""
        found, seen = self.evaluation, self.result.data.get(self.result.split, {}).get("in_train", 0)
        if found and 10 * seen >= found.examples:
            return f" (which is too high, as {seen:,} of the {found.examples:,} examples were trained on)"
        low, high = (found and found.confidence_intervals.get(metric)) or (0.0, 0.0)
        is_wide = high - low >= WIDE
        return f" ({low:.1f} to {high:.1f}, as {found.examples:,} examples tell)" if found and is_wide else ""


def _after(start: str, words: str) -> str:
    """A sentence after what it starts with, if that is anything."""
    return f"{start}{words[0].lower()}{words[1:]}" if start else words


def _plain(metric: str) -> str:
    """A metric as people call it."""
    return {"f1": "F1", "spearmanr": "Spearman correlation", "macro_f1": "mean F1 of the labels"}.get(
        metric, metric.replace("_", " ")
    )
