"""A baseline on disk: the folder `model` of its run, with arrays as safetensors and everything else as JSON."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from bertcli.data.atomic import replacing
from bertcli.data.checksums import check_files
from bertcli.data.json_files import read_json, write_json
from bertcli.errors import UserError
from bertcli.kinds import KINDS
from bertcli.lifecycle.baselining.description import BASELINE, CONFIG, MEND, description_of
from bertcli.lifecycle.baselining.methods import METHODS
from bertcli.lifecycle.baselining.methods.method import Baseline
from bertcli.tasks.task import Task

FITTED, ARRAYS = "fitted.json", "fitted.safetensors"


def save_baseline(baseline: Baseline, method: str, task: Task, folder: Path) -> None:
    """Write a baseline into a folder of its own, with checksums."""
    from safetensors.numpy import save

    values = {each.name: getattr(baseline, each.name) for each in fields(baseline)}
    arrays = {name: values.pop(name) for name in baseline.array_names()}
    labels = task.labels if KINDS[task.kind].names_outputs else ()
    with replacing(folder) as part:
        part.mkdir(parents=True)
        write_json(part / CONFIG, {BASELINE: method, "kind": task.kind, "id2label": dict(enumerate(labels))}, indent=2)
        write_json(part / FITTED, values)
        (part / ARRAYS).write_bytes(save(arrays))


def load_baseline(folder: Path, task: Task) -> Baseline:
    """Read the baseline of a folder, for a task with its labels. Raises UserError if a file is damaged."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    check_files(folder)
    method, kind, _ = description_of(folder)
    if method not in METHODS or kind not in METHODS[method].fits:
        raise UserError(f"`{folder / CONFIG}` is damaged: there is no such baseline.", MEND)
    fitted = METHODS[method].fits[kind]
    values = read_json(folder / FITTED, MEND, **fitted.json_types)
    values = {name: values[name] for name in fitted.json_types}
    if strange := next((name for name, each in values.items() if not _is_plain(each)), None):
        raise UserError(f"`{folder / FITTED}` is damaged: `{strange}` holds what is no text.", MEND)
    try:
        arrays = load_file(folder / ARRAYS)
    except (OSError, SafetensorError) as error:
        raise UserError(f"`{folder / ARRAYS}` cannot be read: {error}.", MEND) from None
    names = set(fitted.array_names())
    if arrays.keys() != names or any(str(each.dtype) != "float32" for each in arrays.values()):
        raise UserError(f"`{folder / ARRAYS}` is damaged: it does not hold {', '.join(sorted(names))}.", MEND)
    baseline = fitted(**arrays, **values)
    if not baseline.is_sound(task):
        raise UserError(f"`{folder}` is damaged: the sizes in its files do not go together.", MEND)
    return baseline


def _is_plain(value: Any) -> bool:
    """Whether a value is text or a number, or a list of different texts."""
    if not isinstance(value, list):
        return True
    return all(isinstance(each, str) for each in value) and len(set(value)) == len(value)
