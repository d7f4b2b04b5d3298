"""How a run begins: in a new folder, from a checkpoint, in one process or in several."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from bertcli import say
from bertcli.config.options import default_of, flag
from bertcli.config.training import TrainingConfig
from bertcli.errors import UserError
from bertcli.lifecycle.workspace import new_run, unfinished_run
from bertcli.training.result import TrainingResult
from bertcli.training.run_folder import RunFolder

if TYPE_CHECKING:
    from accelerate import Accelerator

AnyTraining = TypeVar("AnyTraining", bound=TrainingConfig)

# The options that may change when a run is resumed; any other would make it another run.
LENGTHS = {"steps", "epochs", "patience", "eval_steps"}  # fixed in a sweep, of which some runs may be finished
STEPS = {"save_steps", "log_steps"}
CHANGEABLE = LENGTHS | STEPS | {"resume", "out", "dry_run", "processes", "track", "data", "eval_data", "data_dir"}


def check_batch_size(batch_size: int, processes: int) -> None:
    """Raise UserError if there are more processes than examples per step."""
    if batch_size < processes:
        raise UserError(f"--batch-size {batch_size} is less than --processes.", "Give each process an example.")


def begin(command: str, config: AnyTraining, name: str) -> tuple[AnyTraining, RunFolder]:
    """The configuration and the folder of a run; with `--resume`, those saved.

    Raises UserError if there is nothing to resume, the run is finished, or an option differs from the run's.
    """
    if not config.resume:
        return config, RunFolder(Path(config.out)) if config.out else new_run(name)
    folder = RunFolder(Path(config.out)) if config.out else unfinished_run(command)
    if not (folder.path / "config.yaml").exists():
        raise UserError(f"There is no run in `{folder.path}`.", "Start it without --resume.")
    saved = {key: value for key, value in folder.config.items() if key in config.values()}
    whole = RunFolder(folder.path.parent)
    if (whole.path / "environment.json").exists() and _has_parts(whole.config):
        hint = f"Resume all: bert {command} --resume --out {whole.path}"
        raise UserError(f"`{folder.path}` is a part of the run `{whole.path}`.", hint)
    resumed = _with_changes(config, config.from_values({**saved, "resume": True, "out": str(folder.path)}), folder)
    _check_unfinished(command, resumed, folder)
    say(f"resuming {folder.path}")
    return resumed, folder


def _with_changes(config: AnyTraining, resumed: AnyTraining, folder: RunFolder) -> AnyTraining:
    """The options of a run with those that were given anew. Raises UserError at one that may not change."""
    changeable = CHANGEABLE - LENGTHS if _has_parts(folder.config) else CHANGEABLE
    for declared in fields(config):
        given, begun = getattr(config, declared.name), getattr(resumed, declared.name)
        if given in (default_of(declared), begun):
            continue
        if declared.name not in changeable:
            was = "without it" if begun is None else f"with {begun}"
            what = f"{flag(declared)} is {given}, but the run in `{folder.path}` was started {was}."
            raise UserError(what, f"Leave {flag(declared)} out, or start a new run.")
        resumed = replace(resumed, **{declared.name: given})
    return resumed


def _check_unfinished(command: str, resumed: TrainingConfig, folder: RunFolder) -> None:
    """Raise UserError if a run is finished, and is not to be longer now."""
    if not folder.is_finished:
        return
    ended_by = _ended_by(folder)
    if (getattr(resumed, ended_by) or 0) > (folder.config[ended_by] or 0):
        return
    hint = "Start a new one."
    if not _has_parts(folder.config):
        longer = f"--{ended_by} {2 * folder.config[ended_by]}"
        hint = f"Train it longer: bert {command} --resume --out {folder.path} {longer}"
    raise UserError(f"The run in `{folder.path}` is finished.", hint)


def _ended_by(folder: RunFolder) -> str:
    """The option that ended a finished run."""
    if TrainingResult.read(folder.path).stopped_early:
        return "patience"
    return "steps" if "steps" in folder.config else "epochs"


def _has_parts(saved: dict[str, Any]) -> bool:
    """Whether a run is of several seeds, of a grid or of all choices of layers."""
    return saved.get("seeds", 1) > 1 or bool(saved.get("grid")) or saved.get("frozen_layers") == "all"


def enter(
    folder: RunFolder, command: str, config: TrainingConfig, resolved: dict[str, Any], accelerator: Accelerator
) -> None:
    """Create the run folder, or with `--resume` lock it."""
    if accelerator.is_main_process:
        if config.resume:
            folder.lock()
            (folder.path / "result.json").unlink(missing_ok=True)
        save = folder.save_config if config.resume else folder.create
        save(command, {**config.values(), **resolved, "resume": False, "out": str(folder.path)})
    accelerator.wait_for_everyone()
    if config.track:
        plain = {name: value for name, value in resolved.items() if isinstance(value, (int, float, str))}
        accelerator.init_trackers("bertcli", config=plain)
