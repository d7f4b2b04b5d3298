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


if TYPE_CHECKING:
    from accelerate import Accelerator

AnyTraining = TypeVar("AnyTraining", bound=TrainingConfig)

# What a resumed run may be told anew; everything else is as the run was begun, or it would not be the same run.
CHANGEABLE = {
    "resume",
    "out",
    "dry_run",
    "processes",
    "steps",
    "epochs",
    "save_steps",
    "eval_steps",
    "log_steps",
    "track",
    "data",
    "eval_data",
    "data_dir",
    "patience",
}
LENGTHS = ("steps", "epochs", "patience", "eval_steps")  # the same for all runs of a sweep, some of which may be done


def check_batch_size(batch_size: int, processes: int) -> None:
    """Check that each process has something to do.

    Raises:
        UserError: if there are more processes than examples a step.
    """
    if batch_size < processes:
        raise UserError(f"--batch-size {batch_size} is less than --processes.", "Give each process an example.")


def begin(command: str, config: AnyTraining, name: str) -> tuple[AnyTraining, RunFolder]:
    """Choose the folder of a run; for `--resume`, take the saved configuration.

    Raises:
        UserError: if there is nothing to resume, the run is finished, or an option differs from the run's.
    """
    if not config.resume:
        return config, RunFolder(Path(config.out)) if config.out else new_run(name)
    folder = RunFolder(Path(config.out)) if config.out else unfinished_run(command)
    if not (folder.path / "config.yaml").exists():
        raise UserError(f"There is no run in `{folder.path}`.", "Start it without --resume.")
    saved = {key: value for key, value in folder.config.items() if key in config.values()}
    whole = RunFolder(folder.path.parent)
    if (whole.path / "environment.json").exists() and _has_parts(whole.config):
        hint = f"Go on with all: bert {command} --resume --out {whole.path}"
        raise UserError(f"`{folder.path}` is a part of the run `{whole.path}`.", hint)
    resumed = config.from_values({**saved, "resume": True, "out": str(folder.path)})
    changeable = CHANGEABLE - {*LENGTHS} if _has_parts(saved) else CHANGEABLE
    ended_by = _ended_by(folder)
    longer = False
    for declared in fields(config):
        given, begun = getattr(config, declared.name), getattr(resumed, declared.name)
        if given == default_of(declared) or given == begun:
            continue
        if declared.name not in changeable:
            raise UserError(
                f"{flag(declared)} is {given}, but the run in `{folder.path}` was begun {'without it' if begun is None else f'with {begun}'}.",
                f"Leave {flag(declared)} out, or start a new run.",
            )
        resumed = replace(resumed, **{declared.name: given})
        longer |= declared.name == ended_by and given > begun
    if ended_by and not longer:
        hint = "Start a new one."
        if ended_by in changeable:
            hint = f"Train it longer: bert {command} --resume --out {folder.path} --{ended_by} {2 * saved[ended_by]}"
        raise UserError(f"The run in `{folder.path}` is finished.", hint)
    say(f"resuming {folder.path}")
    return resumed, folder


def _ended_by(folder: RunFolder) -> str:
    """The option that says how long a run is trained, if it is finished."""
    if not folder.is_finished:
        return ""
    if TrainingResult.read(folder.path).stopped_early:
        return "patience"
    return "steps" if "steps" in folder.config else "epochs"


def _has_parts(saved: dict[str, Any]) -> bool:
    """Whether a run is of several seeds, of a grid or of all choices of layers."""
    return saved.get("seeds", 1) > 1 or bool(saved.get("grid")) or saved.get("frozen_layers") == "all"


def enter(
    folder: RunFolder, command: str, config: TrainingConfig, resolved: dict[str, Any], accelerator: Accelerator
) -> None:
    """Take the run folder: made new, or as it was for `--resume`."""
    if accelerator.is_main_process:
        if config.resume:
            folder.lock()
            (folder.path / "result.json").unlink(missing_ok=True)
        folder_values = {**config.values(), **resolved, "resume": False, "out": str(folder.path)}
        if config.resume:
            folder.save_config(command, folder_values)
        else:
            folder.create(command, folder_values)
    accelerator.wait_for_everyone()
    say(f"run folder: {folder.path}")
    if config.track:
        accelerator.init_trackers(
            "bertcli", config={k: v for k, v in resolved.items() if isinstance(v, (int, float, str))}
        )
