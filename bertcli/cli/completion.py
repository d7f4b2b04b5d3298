"""What the shell completes for each option: choices, tasks, runs, models, recipes, and the columns of the file named."""

import csv
from collections.abc import Callable, Iterable, Iterator
from dataclasses import Field
from pathlib import Path
from typing import Any

from bertcli.config.options import choices_of

COLUMNS = ("text", "text_pair", "label")  # options that name a column of the file
DELIMITERS = {".csv": ",", ".tsv": "\t"}
Complete = Callable[[Any, str], list[str]]


def completion_of(declared: Field[Any]) -> Complete | None:
    """What completes the values of an option; None for those that only a person knows."""
    name = declared.name.rstrip("_")
    if choices_of(declared):
        return _starting(lambda ctx: choices_of(declared))
    return _starting(_VALUES[name]) if name in _VALUES else None


def complete_recipes(ctx: Any, incomplete: str) -> list[str]:
    """The names of the recipes that ship with the package."""
    from bertcli.config.recipes import recipe_names

    return [name for name in recipe_names() if name.startswith(incomplete)]


def _starting(values: Callable[[Any], Iterable[str]]) -> Complete:
    return lambda ctx, incomplete: [value for value in values(ctx) if value.startswith(incomplete)]


def _tasks(ctx: Any) -> list[str]:
    from bertcli.tasks import TASKS

    return list(TASKS)


def _models(ctx: Any) -> Iterator[str]:
    """The runs of this folder, and the models that have a short name."""
    from bertcli.lifecycle.pretrained import PRETRAINED

    yield from sorted(str(path.parent) for path in Path("runs").glob("*/config.yaml"))
    yield from PRETRAINED


def _columns(ctx: Any) -> list[str]:
    """The columns of the table that stands before."""
    for path in map(Path, [*(ctx.params.get("task") or ()), *ctx.args]):
        if path.suffix in DELIMITERS and path.is_file():
            with path.open(encoding="utf-8", errors="replace", newline="") as file:
                return next(csv.reader([file.readline()], delimiter=DELIMITERS[path.suffix]), [])
    return []


_VALUES: dict[str, Callable[[Any], Iterable[str]]] = {
    "task": _tasks,
    "from": _models,
    "model": _models,
    "runs": _models,
}
_VALUES |= dict.fromkeys(COLUMNS, _columns)
