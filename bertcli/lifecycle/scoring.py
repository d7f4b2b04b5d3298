"""The scores of predictions."""

from bertcli import say
from bertcli.kinds import KINDS
from bertcli.kinds.kind import Split, unlabelled
from bertcli.kinds.types import Compared, Prediction
from bertcli.tasks.task import Task

CORRELATIONS = {"matthews_correlation": "Matthews", "pearson": "Pearson", "spearmanr": "Spearman"}


def compare(task: Task, split: Split, predictions: list[Prediction]) -> Compared:
    """Predictions and right answers as the metric takes them. Raises UserError if the split has no labels."""
    if not split.examples.is_labelled:
        raise unlabelled(task, split)
    compared = KINDS[task.kind].compare(task, split.examples, predictions)
    _say_degenerate(task, compared)
    return compared


def measure(task: Task, compared: Compared) -> dict[str, float]:
    """The scores that the task names, for spans all that there are, to six decimals; a threshold stays as it is."""
    kind = KINDS[task.kind]
    scores = kind.metric(task).compute(**compared)
    names = [*task.metrics, *(name for name in scores if kind.scores_all and name not in task.metrics)]
    shown = {name: scores[name] for name in names if name in scores}
    return {name: score if name.endswith("_thresh") else round(score, 6) for name, score in shown.items()}


def score(task: Task, split: Split, predictions: list[Prediction]) -> dict[str, float]:
    """Score predictions by the metrics of the task; the first chooses the best checkpoint."""
    return measure(task, compare(task, split, predictions))


def is_collapsed(task: Task, predictions: list[Prediction]) -> bool:
    """Whether every example, or word, has the same prediction, as of a model that has learnt nothing."""
    kind = KINDS[task.kind]
    given = [str(answer) for answer in kind.flat([each[kind.says] for each in predictions])]
    return kind.can_collapse and len(given) > 1 and len(set(given)) == 1


def _say_degenerate(task: Task, compared: Compared) -> None:
    """Say which scores are 0 because they are not defined, and that a model with one answer has learnt nothing."""
    kind = KINDS[task.kind]
    predicted, true = kind.flat(compared["predictions"]), compared["references"]
    named = [name for metric, name in CORRELATIONS.items() if metric in task.metrics]
    for what, values in (("prediction", predicted), ("label", true)):
        if named and len(set(values)) == 1:
            say(f"{' and '.join(named)} correlation is 0 because every {what} is the same")
    if len(predicted) > 1 and len({str(prediction) for prediction in predicted}) == 1:
        say(
            "every prediction is the same: the model has not learnt the task (another seed or a lower --learning-rate may)"
        )
