"""The scores of predictions with their intervals, and two of them beside each other on the same examples."""

from __future__ import annotations

from dataclasses import dataclass, replace
from heapq import nlargest
from operator import itemgetter
from typing import TYPE_CHECKING

from bertcli import say
from bertcli.errors import UserError
from bertcli.kinds import KINDS
from bertcli.kinds.kind import Split
from bertcli.kinds.types import Compared, Mistake, Prediction
from bertcli.lifecycle.scoring.scores import compare, measure, resampled
from bertcli.reports.evaluation import Evaluation
from bertcli.tasks.task import Task

if TYPE_CHECKING:
    from bertcli.metrics.metric import Array


@dataclass(frozen=True)
class Scored:
    """An evaluation with what it was made of, and what another one is compared by: the split, and scores of resampled examples."""

    evaluation: Evaluation
    split: Split
    compared: Compared
    resampled: dict[str, Array]


def score_split(task: Task, model: str, split: Split, predictions: list[Prediction], worst: list[Mistake]) -> Scored:
    """Score predictions, with intervals by the bootstrap and scores by label; `worst` are the errors that are shown."""
    from bertcli.metrics.metric import SHARES, interval_of_score

    kind, compared = KINDS[task.kind], compare(task, split, predictions)
    metrics = measure(task, compared)
    drawn = resampled(task, compared)
    drawn = {name: drawn[name] for name in metrics if name in drawn}
    labels = kind.label_scores(task, predictions, compared)
    shares = (*SHARES, "f1") if "exact_match" in drawn else SHARES  # an answer's F1 is not below its exact match
    answered = sum(map(any, compared["references"])) if "HasAns_f1" in drawn else 0
    counts = {"HasAns": answered, "NoAns": len(split) - answered}
    sizes = {name: counts.get(name.partition("_")[0], len(split)) for name in drawn}
    intervals = {name: interval_of_score(each, sizes[name], name.endswith(shares)) for name, each in drawn.items()}
    mistakes = [mistake for _, mistake in worst]
    scores = (metrics, task.paper_scores(split.name), task.paper_splits(split.name), intervals, *labels, mistakes)
    return Scored(Evaluation(task.name, split.name, model, len(split), *scores), split, compared, drawn)


def worst_mistakes(task: Task, split: Split, predictions: list[Prediction], count: int) -> list[Mistake]:
    """The `count` most confident errors; without probabilities, in the order of the split."""
    if not count:
        return []
    kind = KINDS[task.kind]
    compared = kind.compare(task, split.examples, predictions)
    found = nlargest(count, kind.mistakes(task, split.examples, predictions, compared), key=itemgetter(0))
    if found and kind.has_probabilities and not any("score" in each or "scores" in each for each in predictions):
        say("no probabilities are given: equally wrong errors are in the order of the split")
    return found


def beside(first: Scored, other: Scored) -> Evaluation:
    """The other evaluation with its differences to the first, significant if the interval excludes 0."""
    if other.split != first.split:
        what = f"`{first.evaluation.model}` and `{other.evaluation.model}` are not scored on the same examples."
        hint = "Each run has held out its own part of a file: give a file that none has learnt from, or the same --data-dir."
        raise UserError(what, hint)
    from bertcli.metrics.metric import paired_difference

    before, drawn, scores = first.resampled, other.resampled, other.evaluation.metrics
    gains = {name: scores[name] - first.evaluation.metrics[name] for name in before if name in drawn}
    to_first = {name: paired_difference(gain, drawn[name] - before[name]) for name, gain in gains.items()}
    return replace(other.evaluation, to_first=to_first)
