"""How a run begins: in a new folder, from a checkpoint, in one process or in several."""

from __future__ import annotations

import logging
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

from accelerate import Accelerator

from bertcli.config import TrainingConfig, default_of, flag
from bertcli.errors import UserError
from bertcli.training.run_folder import RunFolder, find_runs, new_run

logger = logging.getLogger("bertcli")
AnyTraining = TypeVar("AnyTraining", bound=TrainingConfig)

# What a resumed run may be told anew; everything else is as the run was begun, or it would not be the same run.
CHANGEABLE = {
    "resume", "out", "dry_run", "processes", "steps", "epochs", "save_steps", "eval_steps", "log_steps", "track",
    "data", "eval_data", "data_dir",
}  # fmt: skip


def begin(command: str, config: AnyTraining, name: str) -> tuple[AnyTraining, RunFolder]:
    """Choose the folder of a run; for `--resume`, take the saved configuration.

    Raises:
        UserError: if there is nothing to resume, or an option differs from the run's.
    """
    if not config.resume:
        return config, RunFolder(Path(config.out)) if config.out else new_run(name)
    folder = RunFolder(Path(config.out)) if config.out else _newest_unfinished(command)
    if not (folder.path / "config.yaml").exists():
        raise UserError(f"There is no run in `{folder.path}`.", "Start it without --resume.")
    saved = {key: value for key, value in folder.config.items() if key in config.values()}
    resumed = config.from_values({**saved, "resume": True, "out": str(folder.path)})
    for declared in fields(config):
        given, begun = getattr(config, declared.name), getattr(resumed, declared.name)
        if given == default_of(declared) or given == begun:
            continue
        if declared.name not in CHANGEABLE:
            raise UserError(
                f"{flag(declared)} is {given}, but the run in `{folder.path}` was begun with {begun}.",
                f"Leave {flag(declared)} out, or start a new run.",
            )
        resumed = replace(resumed, **{declared.name: given})
    logger.info("resuming %s", folder.path)
    return resumed, folder


def _newest_unfinished(command: str) -> RunFolder:
    runs = find_runs(command, finished=False)
    if not runs:
        raise UserError(
            f"There is no unfinished run of `bert {command}` here.", f"Start one: bert {command}; or name it: --out RUN"
        )
    return runs[0]


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
    logger.info("run folder: %s", folder.path)
    if config.track:
        accelerator.init_trackers(
            "bertcli", config={k: v for k, v in resolved.items() if isinstance(v, (int, float, str))}
        )
