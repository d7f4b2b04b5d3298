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
from bertcli.data.atomic import replacing
from bertcli.errors import Interrupted, UserError
from bertcli.tasks.paper import FINETUNING_GRID, FROZEN_SCORES
from bertcli.training.result import TrainingResult
from bertcli.training.run_folder import RunFolder

if TYPE_CHECKING:
    from accelerate import Accelerator

Setting = dict[str, Any]  # the options in which the runs differ
GRIDS = {"paper": FINETUNING_GRID}


def settings_of(config: FinetuneConfig) -> list[Setting]:
    """The setting of each run, for `--grid`, `--frozen-layers all` and `--seeds`; none where there is a single run to make.

    An option of the grid that is given stays as it is given.

    Raises:
        UserError: if that leaves the grid nothing to try.
    """
    grid = GRIDS[config.grid] if config.grid else {}
    axes: dict[str, Any] = {name: values for name, values in grid.items() if getattr(config, name) is None}
    if grid and not axes:
        raise UserError(
            f"--grid {config.grid} has nothing to try: batch size, learning rate and epochs are given.",
            "Leave out the recipe, or those of them that the grid shall choose.",
        )
    if config.frozen_layers == "all":
        axes["frozen_layers"] = tuple(FROZEN_SCORES)
    if config.seeds > 1:
        axes["seed"] = range(config.seed, config.seed + config.seeds)
    return [dict(zip(axes, values, strict=True)) for values in product(*axes.values())] if axes else []


def name_of(setting: Setting) -> str:
    """The sub-folder of a run: `batch-size-16-learning-rate-5e-05-epochs-2`, `seed-0`."""
    return "-".join(f"{option.replace('_', '-')}-{value}" for option, value in setting.items())


def run_sweep(
    config: FinetuneConfig,
    folder: RunFolder,
    settings: list[Setting],
    metric: str,
    accelerator: Accelerator,
    train: Callable[[FinetuneConfig, RunFolder], TrainingResult],
) -> TrainingResult:
    """Train each setting in turn and put the best model on dev into the folder; what is finished stays as it is.

    A run that collapsed is the best only if all did.

    Raises:
        Interrupted: after Ctrl-C; `--resume` goes on within the run that it stopped.
    """
    results = []
    for number, setting in enumerate(settings, 1):
        part = RunFolder(folder.path / name_of(setting))
        if not part.is_finished:
            say(f"run {number} of {len(settings)}: {part.path.name}")
            _train_part(config, part, setting, accelerator, train)
        results.append(TrainingResult.read(part.path))
    best = max(range(len(results)), key=lambda number: (not results[number].collapsed, results[number].metrics[metric]))
    if accelerator.is_main_process:
        _adopt(folder, RunFolder(folder.path / name_of(settings[best])))
    runs = [
        {
            "run": result.run,
            "setting": setting,
            "metrics": result.metrics,
            "steps": result.steps,
            "best_step": result.best_step,
            "stopped_early": result.stopped_early,
            "collapsed": result.collapsed,
            "best": number == best,
        }
        for number, (setting, result) in enumerate(zip(settings, results, strict=True))
    ]
    found = replace(results[best], run=str(folder.path), model=str(folder.model), runs=runs)
    return replace(found, spread=_spread(settings, results)) if config.seeds > 1 else found


def _train_part(
    config: FinetuneConfig,
    part: RunFolder,
    setting: Setting,
    accelerator: Accelerator,
    train: Callable[[FinetuneConfig, RunFolder], TrainingResult],
) -> None:
    """Train one setting: from its checkpoint, or from the start where it has none yet."""
    is_begun = (part.last / "state.json").exists()
    if accelerator.is_main_process and not is_begun:
        shutil.rmtree(part.path, ignore_errors=True)
    own = replace(config, **setting, seeds=1, grid=None, out=str(part.path), resume=is_begun)
    try:
        train(own, part)
    except (Interrupted, KeyboardInterrupt) as stop:
        said = stop.message if isinstance(stop, Interrupted) else "Interrupted."
        raise Interrupted(
            f"{part.path.name}: {said}", f"Go on: bert finetune --resume --out {part.path.parent}"
        ) from None
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        shutil.rmtree(part.last)  # three times the size of the model, and of no more use


def _adopt(folder: RunFolder, best: RunFolder) -> None:
    """Copy the model, the predictions and the curves of the best run into the folder of all."""
    with replacing(folder.model) as part:
        shutil.copytree(best.model, part)
    for path in (*best.path.glob("*predictions.json*"), *best.path.glob("null_odds.json"), best.path / "metrics.jsonl"):
        shutil.copyfile(path, folder.path / path.name)


def _spread(settings: list[Setting], results: list[TrainingResult]) -> list[dict[str, Any]]:
    """Median, standard deviation (of a sample), least and most over the seeds of each setting, a metric each."""
    groups: dict[tuple[Any, ...], list[TrainingResult]] = {}
    for setting, result in zip(settings, results, strict=True):
        groups.setdefault(tuple(item for item in setting.items() if item[0] != "seed"), []).append(result)
    rows = []
    for setting_items, group in groups.items():
        for metric in group[0].metrics:
            scores = [result.metrics[metric] for result in group]
            rows.append(
                {
                    "setting": dict(setting_items),
                    "metric": metric,
                    "runs": len(scores),
                    "collapsed": sum(r.collapsed for r in group),
                    "median": round(median(scores), 6),
                    "standard_deviation": round(stdev(scores), 6),
                    "minimum": min(scores),
                    "maximum": max(scores),
                }
            )
    return rows
