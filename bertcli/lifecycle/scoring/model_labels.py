"""The labels of a model beside those of a task."""

from bertcli import say
from bertcli.data.labelled.prediction_table import in_other_case
from bertcli.errors import UserError
from bertcli.tasks.task import Task


def model_labels(id2label: dict[int, str], task: Task, source: str) -> tuple[str, ...]:
    """The model's label names in its own order and the task's case; for LABEL_0 ... those of the task."""
    given = [id2label[index] for index in range(len(id2label))]
    spelled = in_other_case(given, task.labels, source)
    names = tuple(spelled.get(name, name) for name in given)
    if not task.labels or set(names) == set(task.labels):
        return names
    if len(names) == len(task.labels) and all(name.startswith("LABEL_") for name in names):
        say(f"the labels of {source} have no names; taken in the order {', '.join(task.labels)}")
        return task.labels
    if set(task.labels) <= set(names) or (not task.hub[0] and set(task.labels) & set(names)):
        return names  # where an own file has another label, its line is named when it is encoded
    what = f"The model `{source}` knows the labels {', '.join(names[:8])}, not those of {task.name}."
    raise UserError(what, how_to_make(task))


def not_of_kind(source: str, made: list[str], task: Task) -> UserError:
    """The error where a model has no head for the task's kind."""
    what = f"The model `{source}` ({', '.join(map(str, made))}) is not of the kind `{task.kind}`."
    return UserError(what, how_to_make(task))


def how_to_make(task: Task) -> str:
    """The hint where a model is not one of the task."""
    return f"Give a model that has learnt the task, or make one: bert finetune {task.learnt_as or task.name}"
