"""How a run begins: in a new folder, from a checkpoint, in one process or in several."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from bertcli import say
from bertcli.config.architecture import PARTS
from bertcli.config.options import flag
from bertcli.config.training import TrainingConfig
from bertcli.data.atomic import replacing
from bertcli.data.json_files import Types, check_values
from bertcli.errors import UserError, quoted
from bertcli.lifecycle.workspace import find_runs, new_run
from bertcli.training.processes.launching import processes_of_run
from bertcli.training.result import TrainingResult
from bertcli.training.run_folder import MEND, RunFolder

if TYPE_CHECKING:
    from accelerate import Accelerator

AnyTraining = TypeVar("AnyTraining", bound=TrainingConfig)

# The options that may change when a run is resumed; any other would make it another run.
SHAPE = ("family", "size", *PARTS)  # of new weights
IDENTITY = ("task", *SHAPE)  # of the run that `--resume` looks for, where they are given
# Fixed in a sweep, of which some runs may be finished.
LENGTHS = {"steps", "epochs", "patience", "eval_steps", "learning_rate"}
STEPS = {"save_steps", "save_minutes", "log_steps", "micro_batch_tokens", "auto_batch_size", "gradient_checkpointing"}
PLACES = {"resume", "out", "dry_run", "processes", "teacher", "track", "data", "eval_data", "data_dir", "data_cache_gb"}
CHANGEABLE = LENGTHS | STEPS | PLACES


def check_batch_size(batch_size: int, processes: int) -> None:
    """Raise UserError if there are more processes than examples per step."""
    if batch_size < processes_of_run(processes):
        raise UserError(f"--batch-size {batch_size} is less than --processes.", "Give each process an example.")


def begin(command: str, config: AnyTraining, name: str) -> tuple[AnyTraining, RunFolder]:
    """The configuration and the folder of a run; with `--resume`, those saved, or new ones where nothing is saved yet.

    Raises UserError if the run is finished, or an option differs from the run's.
    """
    folder = RunFolder(Path(config.out)) if config.out else _latest_run(command, config, name)
    folder.check(command, config.resume)
    if not config.resume:
        return config, folder
    if not (folder.path / "config.yaml").exists():
        if folder.is_occupied:
            raise UserError(f"`{folder.path}` holds no run.", "Give another --out.")
        say(f"there is nothing to resume in {folder.path} yet: starting from the first step")
        return config.build(config, {"resume": False}), folder
    saved = {key: value for key, value in folder.config.items() if key in config.values()}
    whole = RunFolder(folder.path.parent)
    if (whole.path / "environment.json").exists() and whole.has_parts:
        hint = f"Resume all: {whole.command_to_resume}"
        raise UserError(f"`{folder.path}` is a part of the run `{whole.path}`.", hint)
    resumed = _with_changes(config, config.from_values({**saved, "resume": True, "out": str(folder.path)}), folder)
    _check_unfinished(command, resumed, folder)
    if not folder.is_resumable:
        say(f"{folder.path} has no checkpoint yet: starting from the first step")
        return resumed.build(resumed, {"resume": False}), RunFolder(folder.path, starts_over=True)
    say(f"resuming {folder.path}")
    return resumed, folder


def check_steps(folder: RunFolder, config: TrainingConfig, steps: int) -> None:
    """Raise UserError if a run that is resumed has made more steps than it is to have."""
    if config.resume and (done := folder.steps_done) > steps:
        what = f"The run in `{folder.path}` has made {done:,} steps already, and is asked for {steps:,}."
        raise UserError(what, f"Continue as it was begun: {folder.command_to_resume}")
    begun = folder.config.get("steps") if config.resume and folder.config.get("phases") else None
    if begun not in (None, steps):
        what = f"The run in `{folder.path}` has phases of its {begun:,} steps, which {steps:,} steps would move."
        raise UserError(what, f"Continue as it was begun: {folder.command_to_resume}")


def _latest_run(command: str, config: TrainingConfig, name: str) -> RunFolder:
    """The folder of a new run, or with `--resume` of the latest unfinished one of what is asked for.

    Raises UserError if all runs of it are finished.
    """
    if not config.resume:
        return new_run(name)
    wanted: dict[str, object] = {
        each: getattr(config, each) for each in IDENTITY if each in config.given and getattr(config, each)
    }
    if wanted.keys() & SHAPE:
        wanted |= {each: getattr(config, each) for each in SHAPE}
    wanted["command"] = command  # not another whose runs are used alike
    if unfinished := find_runs(command, finished=False, **wanted):
        return unfinished[0]
    if finished := find_runs(command, finished=True, **wanted):
        _check_unfinished(command, config, finished[0])
    return new_run(name)


def _with_changes(config: AnyTraining, resumed: AnyTraining, folder: RunFolder) -> AnyTraining:
    """The options of a run with those that were given anew. Raises UserError at one that may not change."""
    changeable = CHANGEABLE - LENGTHS if folder.has_parts else CHANGEABLE
    for declared in fields(config):
        given, begun = getattr(config, declared.name), getattr(resumed, declared.name)
        if declared.name not in config.given or given == begun or _is_model_of(given, begun):
            continue
        was = "without it" if begun is None else f"with {begun}"
        if declared.name not in changeable:
            what = f"{flag(declared)} is {given}, but the run in `{folder.path}` was started {was}."
            raise UserError(what, f"Leave {flag(declared)} out, or start a new run.")
        if declared.name in LENGTHS:
            say(f"{flag(declared)} is {given} from now on; the run in {folder.path} was begun {was}")
        resumed = resumed.build(resumed, {declared.name: given})
    return resumed


def _is_model_of(given: object, begun: object) -> bool:
    """Whether a run was begun with the model of the run that is given; --from may be removed by then."""
    return isinstance(given, str) and isinstance(begun, str) and Path(begun) == RunFolder(Path(given)).model


def _check_unfinished(command: str, resumed: TrainingConfig, folder: RunFolder) -> None:
    """Raise UserError if a run is finished, and is not to be longer now."""
    if not folder.is_finished:
        return
    ended_by = _ended_by(folder, resumed)
    number: Types = int | float | None if folder.has_parts else int | float  # the parts of a grid differ in it
    check_values(folder.path / "config.yaml", MEND, folder.config, {ended_by: number})
    begun = folder.config[ended_by]
    is_phased = bool(folder.config.get("phases"))  # more steps would move the phases
    if begun is not None and (getattr(resumed, ended_by) or 0) > begun and not is_phased:
        return
    hint = "Start a new one, without --resume."
    if is_phased:
        hint = f"Train its model further: bert {command} --from {quoted(folder.path)}"
    elif not folder.has_parts:
        longer = f"--{ended_by} {str(2 * begun).removesuffix('.0')}"
        hint = f"Train it longer: {folder.how_to_resume(command)} {longer}"
    raise UserError(f"The run in `{folder.path}` is finished.", hint)


def _ended_by(folder: RunFolder, resumed: TrainingConfig) -> str:
    """The option that ended a finished run."""
    if TrainingResult.read(folder.path).stopped_early:
        return "patience"
    return "steps" if getattr(resumed, "steps", None) else "epochs"


def enter(
    folder: RunFolder,
    command: str,
    config: TrainingConfig,
    resolved: dict[str, Any],
    accelerator: Accelerator,
    save_start: Callable[[Path], None] | None = None,
) -> None:
    """Create the run folder, with what the model is built from, or with `--resume` lock it."""
    from accelerate.utils import broadcast_object_list

    if accelerator.is_main_process:
        if config.resume:
            folder.lock()
            (folder.path / "result.json").unlink(missing_ok=True)
        save = folder.save_config if config.resume else folder.create
        save(command, {**config.values(), **resolved, "resume": False, "out": str(folder.path)})
        if save_start and not config.resume:
            with replacing(folder.start) as part:
                save_start(part)
    accelerator.wait_for_everyone()
    folder.path = broadcast_object_list([folder.path])[0]  # another number, where a run has taken its name since
    if config.track:
        plain = {name: value for name, value in resolved.items() if isinstance(value, (int, float, str))}
        accelerator.init_trackers("bertcli", config=plain)
