"""What the shell completes for each option: choices, tasks, runs, models, recipes, and the columns of the file named."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import Field
from pathlib import Path
from typing import Any

from bertcli import quietly
from bertcli.config.options import choices_of
from bertcli.config.recipes import recipe_names
from bertcli.errors import UserError

Complete = Callable[[Any, str], list[str]]


def completion_of(declared: Field[Any]) -> Complete | None:
    """What completes the values of an option; None for those that only a person knows."""
    name = declared.name.rstrip("_")
    if choices_of(declared):
        return _starting(lambda ctx: choices_of(declared))
    return _starting(_VALUES[name]) if name in _VALUES else None


def _starting(values: Callable[[Any], Iterable[str]]) -> Complete:
    return lambda ctx, incomplete: [value for value in values(ctx) if value.startswith(incomplete)]


def _tasks(ctx: Any) -> Iterable[str]:
    from bertcli.tasks import TASKS

    return TASKS


def _models(ctx: Any) -> Iterator[str]:
    """The runs of this folder, and the models that have a short name."""
    from bertcli.lifecycle.pretrained import PRETRAINED

    yield from _runs(ctx)
    yield from PRETRAINED


def _runs(ctx: Any) -> list[str]:
    from bertcli.lifecycle.workspace import run_folders

    return sorted(str(run.path) for run in run_folders())


def _columns_of(files: list[str]) -> list[str]:
    from bertcli.data.labelled.conll import TAG_ENDINGS, columns_of
    from bertcli.data.text.files import TABLE_ENDINGS, ending_of
    from bertcli.data.text.tables import stream_table

    for path in map(Path, files):
        if ending_of(path) in (*TABLE_ENDINGS, *TAG_ENDINGS) and path.is_file():
            with quietly(), suppress(UserError):
                return stream_table(path)[0] if ending_of(path) in TABLE_ENDINGS else columns_of(path).names
    return []


complete_recipes = _starting(lambda ctx: recipe_names())
_VALUES: dict[str, Callable[[Any], Iterable[str]]] = {
    "task": _tasks,
    **dict.fromkeys(("from", "model", "teacher"), _models),
    **dict.fromkeys(("run", "runs", "source"), _runs),
    **dict.fromkeys(
        ("text", "text_pair", "label"), lambda ctx: _columns_of([*(ctx.params.get("task") or ()), *ctx.args])
    ),
    "text_column": lambda ctx: _columns_of([ctx.params.get("file") or "", *(ctx.params.get("text") or ()), *ctx.args]),
}
