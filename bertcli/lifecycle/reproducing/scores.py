"""The cells of a reproduced table, and whether each difference of the paper between two rows shows in ours, and how surely."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from statistics import fmean, median, stdev
from typing import TYPE_CHECKING, Any

from bertcli import quietly, say
from bertcli.kinds import KINDS
from bertcli.kinds.kind import Split
from bertcli.lifecycle.reproducing.parts import Part, Row
from bertcli.lifecycle.reproducing.running import result_of
from bertcli.lifecycle.scoring.scores import compare, resampled
from bertcli.lifecycle.sources import find_source
from bertcli.tasks import get_task
from bertcli.tasks.experiments.experiment import MINUTES, PERPLEXITY, Column, Experiment

if TYPE_CHECKING:
    from bertcli.metrics.metric import Array

RESAMPLED_SEED = 0
MASKED_LM_LOSS = "masked_lm_loss"


@dataclass(frozen=True)
class Cell:
    """The scores of a row by a column, one for each pair of seeds, and the paper's."""

    row: str
    column: str
    scores: Sequence[float]
    paper: float | None

    @property
    def median(self) -> float | None:
        """The median over the seeds."""
        return round(median(self.scores), 4) if self.scores else None

    @property
    def standard_deviation(self) -> float | None:
        """The sample standard deviation over the seeds; None of a single one."""
        return round(stdev(self.scores), 4) if len(self.scores) > 1 else None

    def to_json(self) -> dict[str, Any]:
        """The cell as `--json` prints it."""
        ends = {"minimum": min(self.scores, default=None), "maximum": max(self.scores, default=None)}
        about = {"row": self.row, "column": self.column, "median": self.median}
        spread = {"standard_deviation": self.standard_deviation, **ends, "scores": [*self.scores]}
        return {**about, **spread, "paper": self.paper}


def cells_of(
    experiment: Experiment, rows: Sequence[Row], parts: Mapping[tuple[str, str], Sequence[str]], folder: Path
) -> list[Cell]:
    """The cells of the parts that are done, row by row; the average of those of a row where none of it is missing."""
    cells = []
    for row in rows:
        of_row: list[Cell] = []
        for column in experiment.columns:
            found = (result_of(folder, part) for part in parts.get((row.name, column.head), ()))
            scores = [_score(result, column) for result in found]
            if column.metric == "average":
                scores = _average(of_row, len(experiment.table.columns) - 1)
            paper = experiment.paper_score(row.paper, column)
            if scores or paper is not None:
                of_row.append(Cell(row.name, column.head, scores, paper))
        cells += of_row
    return cells


def _average(cells: Sequence[Cell], count: int) -> list[float]:
    """The mean of the cells of a row; nothing where some of them are missing."""
    medians = [each.median for each in cells if each.median is not None]
    return [round(fmean(medians), 4)] if len(medians) == count else []


def _score(result: Mapping[str, Any], column: Column) -> float:
    if column.metric == MINUTES:
        return round(float(result["seconds"]) / 60, 2)
    metrics: Mapping[str, float] = result["metrics"]
    return round(math.exp(metrics[MASKED_LM_LOSS]), 4) if column.metric == PERPLEXITY else metrics[column.metric]


@dataclass
class Comparisons:
    """The differences between rows, from the predictions that their runs have kept."""

    experiment: Experiment
    folder: Path
    parts: Mapping[str, Part]
    of_cells: Mapping[tuple[str, str], Sequence[str]]
    seeds: int = 1  # of fine-tuning, for each pre-training
    _resampled: dict[str, dict[str, Array]] = field(default_factory=dict)  # by part

    def all(self, rows: Sequence[Row], cells: Sequence[Cell]) -> list[dict[str, Any]]:
        """Each row beside the one that it is compared with, by each column that both have."""
        named, paper_rows = {(each.row, each.column): each for each in cells}, {row.name: row.paper for row in rows}
        found = []
        for row in rows:
            for column in self.experiment.compared_columns:
                own, other = named.get((row.name, column.head)), named.get((row.beside, column.head))
                if own and other and own.scores and other.scores:
                    papers = [self.experiment.paper_score(paper_rows[each], column) for each in (row.name, row.beside)]
                    is_told_apart = paper_rows[row.name] != paper_rows[row.beside] and None not in papers
                    paper = round(papers[0] - papers[1], 4) if is_told_apart else None  # type: ignore[operator]
                    found.append(self._compared(own, other, column, paper))
        return found

    def _compared(self, own: Cell, other: Cell, column: Column, paper: float | None) -> dict[str, Any]:
        """The mean difference of the pairs of runs with the same seeds, with its interval, beside the paper's difference."""
        import numpy as np

        from bertcli.metrics.metric import paired_difference

        difference = fmean(own.scores) - fmean(other.scores)
        drawn = self._differences(own, other, column)
        about = {"row": own.row, "beside": other.row, "column": own.column}
        values: dict[str, Any] = {"difference": round(difference, 4), "confidence_interval": None, "significant": None}
        if drawn is not None:
            values = paired_difference(round(difference, 4), drawn)
        share = None
        if paper and drawn is not None:
            share = round(float(np.heaviside(drawn if paper > 0 else -drawn, 0.5).mean()), 4)  # no difference: half
        holds = (difference > 0) == (paper > 0) if paper and difference else None
        return {**about, **values, "paper": paper, "direction_holds": holds, "share_of_resamples": share}

    def _differences(self, own: Cell, other: Cell, column: Column) -> Array | None:
        """The difference in each resample of examples, pre-trainings and fine-tunings of those drawn; None where nothing can be."""
        import numpy as np

        pairs = [self.of_cells[each.row, each.column] for each in (own, other)]
        if column.split == "dev" and column.task and all(self._keeps(part, column) for part in (*pairs[0], *pairs[1])):
            scores = [np.stack([self._resampled[part][column.metric] for part in parts]) for parts in pairs]
        elif len(own.scores) > 1:
            from bertcli.metrics.metric import RESAMPLES

            scores = [np.repeat(np.array(each.scores)[:, None], RESAMPLES, axis=1) for each in (own, other)]
        else:
            return None
        seeds, (runs, resamples) = self.seeds if column.task else 1, scores[0].shape
        draw, models = np.random.default_rng(RESAMPLED_SEED), runs // seeds
        first = draw.integers(models, size=(models, 1, resamples)) * seeds
        drawn = (first + draw.integers(seeds, size=(models, seeds, resamples))).reshape(runs, resamples)
        means: list[Array] = [np.take_along_axis(each, drawn, axis=0).mean(axis=0) for each in scores]
        return means[0] - means[1]

    def _keeps(self, part: str, column: Column) -> bool:
        """Whether a run has kept the predictions that a column scores; their scores are resampled."""
        if part not in self._resampled:
            options = self.parts[part].options
            task, run = get_task(options["task"]), self.folder / part
            with quietly():
                split = _dev(task.name, options["data_dir"], options["limit_dev"])
                kept = KINDS[task.kind].kept_predictions(run) or []
                is_whole = len(kept) == len(split)
                self._resampled[part] = resampled(task, compare(task, split, kept)) if is_whole else {}
            if not is_whole:
                say(f"{run} has lost its predictions: its differences have no interval over the examples")
        return column.metric in self._resampled[part]


@lru_cache(maxsize=2)
def _dev(task: str, data_dir: str | None, limit: int | None) -> Split:
    return find_source(task, data_dir).read_dev("dev", limit)
