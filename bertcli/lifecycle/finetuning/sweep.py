"""Several runs of one request, in sub-folders of one run: seeds, the settings of a grid, or what a BiLSTM reads."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from statistics import median, stdev
from typing import TYPE_CHECKING, Any

from bertcli import say
from bertcli.config.training import FinetuneConfig
from bertcli.data.atomic import remove, replacing
from bertcli.errors import Interrupted, UserError
from bertcli.tasks.paper import FINETUNING_GRID, FROZEN_SCORES
from bertcli.training.checkpoint import has_checkpoint
from bertcli.training.result import TrainingResult
from bertcli.training.run_folder import RunFolder
from bertcli.training.stopping import Interruption, interrupted

if TYPE_CHECKING:
    from accelerate import Accelerator

FROZEN_LAYERS = "concat-last-four"  # the best of the paper's Table 7, which names neither learning rate nor epochs
Setting = dict[str, Any]  # the options in which the runs differ
Train = Callable[[FinetuneConfig, RunFolder], TrainingResult]
GRIDS = {"paper": FINETUNING_GRID}
SHOWN = ("metrics", "steps", "best_step", "stopped_early", "collapsed")  # of each run


def settings_of(config: FinetuneConfig) -> list[Setting]:
    """The setting of each run of `--grid`, `--frozen-layers all` and `--seeds`; empty for a single run.

    Options that are given are not varied. Raises UserError if that leaves the grid nothing to try.
    """
    grid = GRIDS[config.grid] if config.grid else {}
    axes: dict[str, Any] = {name: values for name, values in grid.items() if getattr(config, name) is None}
    if grid and not axes:
        what = f"--grid {config.grid} has nothing to try: batch size, learning rate and epochs are given."
        raise UserError(what, "Leave out the recipe, or the options that the grid is to choose.")
    if config.frozen_layers == "all":
        axes["frozen_layers"] = tuple(FROZEN_SCORES)
    if config.seeds > 1:
        axes["seed"] = range(config.seed, config.seed + config.seeds)
    return [dict(zip(axes, values, strict=True)) for values in product(*axes.values()) if axes]


def name_of(setting: Setting) -> str:
    """The sub-folder of a run: `batch-size-16-learning-rate-5e-05-epochs-2`, `seed-0`."""
    return "-".join(f"{option.replace('_', '-')}-{value}" for option, value in setting.items())


def run_sweep(
    config: FinetuneConfig, folder: RunFolder, settings: list[Setting], metric: str, device: Accelerator, train: Train
) -> TrainingResult:
    """Train each unfinished setting in turn and copy the best model on dev to the folder; collapsed runs rank last.

    Raises Interrupted after Ctrl-C; `--resume` continues the run that was stopped.
    """
    results = []
    for number, setting in enumerate(settings, 1):
        part = RunFolder(folder.path / name_of(setting))
        if not part.is_finished:
            say(f"run {number} of {len(settings)}: {part.path.name}")
            _train_part(config, part, setting, device, train)
        results.append(TrainingResult.read(part.path))
    best = max(range(len(results)), key=lambda number: (not results[number].collapsed, results[number].metrics[metric]))
    if device.is_main_process:
        _adopt(folder, RunFolder(folder.path / name_of(settings[best])))
    runs = [
        {"run": result.run, "setting": setting, **{key: getattr(result, key) for key in SHOWN}, "best": number == best}
        for number, (setting, result) in enumerate(zip(settings, results, strict=True))
    ]
    found = replace(results[best], run=str(folder.path), model=str(folder.model), runs=runs)
    return replace(found, spread=_spread(settings, results)) if config.seeds > 1 else found


def _train_part(config: FinetuneConfig, part: RunFolder, setting: Setting, device: Accelerator, train: Train) -> None:
    """Train one setting, from its checkpoint if there is one."""
    is_begun = has_checkpoint(part.path)
    if device.is_main_process and not is_begun:
        shutil.rmtree(part.path, ignore_errors=True)
    own = replace(config, **setting, seeds=1, grid=None, out=str(part.path), resume=is_begun)
    try:
        with Interruption(is_at_once=True), part:
            train(own, part)
    except (Interrupted, KeyboardInterrupt) as stop:
        raise interrupted(stop, f"{part.path.name}: ", RunFolder(part.path.parent).how_to_resume("finetune")) from None
    device.wait_for_everyone()
    if device.is_main_process:
        remove(part.checkpoints)  # no longer needed, and three times the size of the model


def _adopt(folder: RunFolder, best: RunFolder) -> None:
    """Copy the model, the predictions and the curves of the best run into the folder of all."""
    with replacing(folder.model) as part:
        shutil.copytree(best.model, part)
    for path in (*best.path.glob("*predictions.json*"), *best.path.glob("null_odds.json"), best.path / "metrics.jsonl"):
        shutil.copyfile(path, folder.path / path.name)


def _spread(settings: list[Setting], results: list[TrainingResult]) -> list[dict[str, Any]]:
    """Median, sample standard deviation, minimum and maximum of each metric over the seeds of each setting."""
    groups: dict[tuple[Any, ...], list[TrainingResult]] = {}
    for setting, result in zip(settings, results, strict=True):
        groups.setdefault(tuple(item for item in setting.items() if item[0] != "seed"), []).append(result)
    rows = []
    for setting_items, group in groups.items():
        for metric in group[0].metrics:
            scores = [result.metrics[metric] for result in group]
            counts = {"runs": len(scores), "collapsed": sum(result.collapsed for result in group)}
            middle = {"median": round(median(scores), 6), "standard_deviation": round(stdev(scores), 6)}
            ends = {"minimum": min(scores), "maximum": max(scores)}
            rows.append({"setting": dict(setting_items), "metric": metric, **counts, **middle, **ends})
    return rows
