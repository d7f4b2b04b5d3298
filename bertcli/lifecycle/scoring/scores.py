"""The scores of predictions."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from bertcli import quietly, say
from bertcli.kinds import KINDS
from bertcli.kinds.kind import Split, unlabelled
from bertcli.kinds.types import Compared, Prediction
from bertcli.tasks.task import Task

if TYPE_CHECKING:
    from bertcli.metrics.metric import Array

CORRELATIONS = {"matthews_correlation": "Matthews", "pearson": "Pearson", "spearmanr": "Spearman"}


def compare(task: Task, split: Split, predictions: list[Prediction]) -> Compared:
    """Predictions and right answers for the metric; notes which scores are undefined. Raises UserError without labels."""
    if not split.examples.is_labelled:
        raise unlabelled(task, split)
    kind = KINDS[task.kind]
    compared = kind.compare(task, split.examples, predictions)
    predicted, true = kind.flat(compared["predictions"]), compared["references"]
    named = [name for metric, name in CORRELATIONS.items() if metric in task.metrics]
    for what, values in (("prediction", predicted), ("label", true)):
        if named and len(set(values)) == 1:
            is_0 = "correlations are 0" if named[1:] else "correlation is 0"
            say(f"{' and '.join(named)} {is_0} because every {what} is the same")
    if len(predicted) > 1 and len({str(prediction) for prediction in predicted}) == 1:
        say(
            "every prediction is the same; if a BERT made them, give it more --epochs or another --learning-rate or --seed"
        )
    return compared


def measure(task: Task, compared: Compared) -> dict[str, float]:
    """The task's metrics (for spans all metrics), rounded to six decimals except thresholds."""
    kind = KINDS[task.kind]
    scores = kind.metric(task).compute(**compared)
    names = [*task.metrics, *(name for name in scores if kind.scores_all and name not in task.metrics)]
    shown = {name: scores[name] for name in names if name in scores}
    return {name: score if name.endswith("_thresh") else round(score, 6) for name, score in shown.items()}


def score(task: Task, split: Split, predictions: list[Prediction]) -> dict[str, float]:
    """Score predictions by the metrics of the task; the first chooses the best checkpoint."""
    return measure(task, compare(task, split, predictions))


def score_all(task: Task, splits: list[Split], predicted: list[list[Prediction]], is_quiet: bool) -> dict[str, float]:
    """The scores of the predictions of each split; names of those after the first begin with the split's."""
    metrics: dict[str, float] = {}
    for split, predictions in zip(splits, predicted, strict=True):
        prefix = "" if split is splits[0] else f"{split.name}_"
        with quietly() if is_quiet else nullcontext():
            metrics |= {prefix + name: value for name, value in score(task, split, predictions).items()}
    return metrics


def is_collapsed(task: Task, predictions: list[Prediction]) -> bool:
    """Whether all predictions are the same, as those of a model that has learnt nothing."""
    kind = KINDS[task.kind]
    given = [str(answer) for answer in kind.flat([each[kind.says] for each in predictions])]
    return len(given) > 1 and len(set(given)) == 1


def resampled(task: Task, compared: Compared) -> dict[str, Array]:
    """The scores of resampled examples, by metric."""
    from bertcli.metrics.metric import resampled_scores

    return resampled_scores(KINDS[task.kind].metric(task).weighted(**compared), len(compared["references"]))
