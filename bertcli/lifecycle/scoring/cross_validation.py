"""Linear heads on features of texts: fitted, and cross-validated."""

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, cast

from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold

from bertcli.data.labelled.examples import Examples, TextExamples
from bertcli.kinds import KINDS
from bertcli.kinds.text import TextKind
from bertcli.kinds.types import Floats, Labels, Predictions
from bertcli.lifecycle.scoring.scores import measure
from bertcli.tasks.task import Task

FOLDS = 5


def cross_validate(task: Task, examples: TextExamples, predict: Callable[[Any, Any], Predictions]) -> Predictions:
    """The predictions for the rows of each fold, by what is fitted to all others: `predict(fitted, left)`."""
    predictions: Predictions = [{}] * len(examples)
    for fitted, left in folds(targets_of(task, examples), examples):
        for row, prediction in zip(left, predict(fitted, left), strict=True):
            predictions[row] = prediction
    return predictions


def choose_and_cross_validate(
    task: Task, examples: TextExamples, states: Floats, strengths: Sequence[float]
) -> tuple[float, Predictions]:
    """The best of several strengths, and the predictions of heads fitted to all folds but one, each on that one.

    The strength with which a fold is predicted is the best on the others: no example chooses what it is predicted by.
    """
    targets = targets_of(task, examples)

    def predict(strength: float, fitted: Any, left: Any) -> Predictions:
        return fit_and_predict(task, states[fitted], targets[fitted], states[left], strength)

    found = {strength: cross_validate(task, examples, partial(predict, strength)) for strength in strengths}

    def best_on(rows: Sequence[int]) -> float:
        taken, kind = examples.take(rows), KINDS[task.kind]
        compared = {each: kind.compare(task, taken, [found[each][row] for row in rows]) for each in strengths}
        return max(strengths, key=lambda each: measure(task, compared[each])[task.metrics[0]])

    def chosen(fitted: Any, left: Any) -> Predictions:
        best = found[best_on(fitted.tolist())]
        return [best[row] for row in left]

    return best_on(range(len(examples))), cross_validate(task, examples, chosen)


def folds(targets: Labels, examples: Examples) -> Iterator[tuple[Any, Any]]:
    """The rows that are fitted to and those that are left, for each part of the examples with these targets.

    Examples with the same texts are in the same part.
    """
    places: dict[Any, int] = {}
    groups = [places.setdefault(each, len(places)) for each in examples.inputs()]
    most = max(Counter(targets.tolist() if targets.dtype.kind == "i" else ()).values(), default=0)
    drawn: dict[str, Any] = {"shuffle": True, "random_state": 0}
    number = min(FOLDS, most) if most > 1 else FOLDS
    parts: Any = StratifiedKFold(number, **drawn) if most > 1 else KFold(number, **drawn)
    if number <= len(places) < len(groups):
        parts = StratifiedGroupKFold(number, **drawn) if most > 1 else GroupKFold(number, **drawn)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # some classes have fewer examples than there are folds
        yield from parts.split(targets, targets, groups)


def fit_and_predict(task: Task, states: Floats, targets: Labels, others: Floats, strength: float) -> Predictions:
    """The predictions for the `others`, [examples, H], of a linear head fitted to the states, [examples, H]."""
    kind = cast(TextKind, KINDS[task.kind])
    weights, biases = kind.fit_head(states, targets, max(1, len(task.labels)), strength)
    return [kind.predict(task.labels, logits) for logits in others @ weights.T + biases]


def targets_of(task: Task, examples: TextExamples) -> Labels:
    """The labels of examples as numbers."""
    return cast(Labels, cast(TextKind, KINDS[task.kind]).targets(task, examples))
