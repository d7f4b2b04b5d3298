"""Fit a simple method to a task, as a run to compare a BERT with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from bertcli import number_of, say
from bertcli.config.baselines import LEFT_TO_RIGHT, LSTMS, BaselineConfig
from bertcli.data.labelled.examples import TextExamples
from bertcli.data.labelled.own_splits import looks_like_file, run_name
from bertcli.errors import UserError, flag_of
from bertcli.kinds.types import Predictions
from bertcli.lifecycle.baselining.methods import METHODS
from bertcli.lifecycle.baselining.methods.method import Baseline, Fitting
from bertcli.lifecycle.left_to_right import finetune_left_to_right
from bertcli.lifecycle.sources import check_options, find_source, size_of
from bertcli.lifecycle.workspace import new_run
from bertcli.tasks import get_task, is_task
from bertcli.training.progress import doing
from bertcli.training.result import CROSS_VALIDATED, TrainingResult
from bertcli.training.run_folder import RunFolder


def baseline(task: BaselineConfig | str, **options: Any) -> TrainingResult:
    """Fit a method to a task or to the user's own files, score it on the dev set and write a run folder.

    Raises UserError if something is missing, or the method has nothing for this kind of task.
    """
    config = BaselineConfig.build(task, options)
    if not config.task:
        raise UserError("Which task? None was given.", "Name one: bert baseline glue/sst2; `bert tasks` lists them.")
    check_options(config)
    if strange := sorted(config.given & config.unused):
        what = f"{flag_of(strange[0])} is not for --method {config.method}"
        raise UserError(f"{what}{' on random vectors' if config.method in LSTMS else ''}.", "Leave it out.")
    if is_task(config.task):
        config.task = get_task(config.task).name
    name = run_name(config.task) if looks_like_file(config.task) else config.task.replace("/", "-").lower()
    folder = RunFolder(Path(config.out)) if config.out else new_run(f"{name}-{config.method}")
    folder.check("baseline", resumes=False)
    if config.method == LEFT_TO_RIGHT:
        return finetune_left_to_right(config, folder.path)
    columns = {"text": config.text, "text_pair": config.text_pair, "label": config.label}
    source = find_source(config.task, config.data_dir, columns, config.kind, config.seed)
    if source.task.learnt_as:
        hint = f"Make one: bert baseline {source.task.learnt_as}; then: bert evaluate {source.task.name}"
        raise UserError(f"{source.task.name} has no training data.", hint)
    fitted = _fitted(config, source.task.name, source.kind.name)
    source = source.for_training(source.is_small and not fitted.needs_dev)
    train, *dev = source.read_to_train(config.limit)
    setup = Fitting(config, source, train, dev)
    if source.own is None:
        say("; ".join(map(size_of, (train, *dev))))
    if config.dry_run:
        say(f"would fit {config.method} to {number_of(len(train), train.examples.unit)} of {source.task.name}")
        return TrainingResult(task=source.task.name, seed=config.seed)
    with doing(f"fitting {config.method}"):
        found = fitted.fit(setup)
    with folder:
        return _write(setup, found, folder)


def _fitted(config: BaselineConfig, task: str, kind: str) -> type[Baseline]:
    """What a method fits for a kind of task. Raises UserError if it has nothing for it, or a text or a package is missing."""
    method = METHODS[config.method]
    if kind not in method.fits:
        others = [name for name, each in METHODS.items() if kind in each.fits]
        hint = f"Give another: --method {' or '.join([*others, LEFT_TO_RIGHT])}"
        raise UserError(f"{method.name} has nothing for {task}, which is of the kind `{kind}`.", hint)
    method.fits[kind].check(config)
    return method.fits[kind]


def _write(setup: Fitting, found: Baseline, folder: RunFolder) -> TrainingResult:
    """Score what was fitted, and write the run."""
    from bertcli.lifecycle.baselining.saving import save_baseline
    from bertcli.lifecycle.finetuning.after import next_commands
    from bertcli.lifecycle.report import write_reports
    from bertcli.lifecycle.reporting.data_summary import summarize_data
    from bertcli.lifecycle.scoring.scores import is_collapsed, score_all

    task, config, scored = setup.task, setup.config, setup.scored[0]
    predicted = [found.predict(task, split.examples) for split in setup.dev] or [_cross_validated(setup, found)]
    metrics = score_all(task, setup.scored, predicted, is_quiet=found.is_constant)
    unused = {name.rstrip("_"): None for name in config.unused}
    digests = {split.name: split.examples.digest for split in (setup.train, *setup.dev)}
    folder.create("baseline", {**config.values(), **unused, **setup.source.resolved, "data_digests": digests})
    save_baseline(found, config.method, task, folder.model)
    for file, text in setup.kind.files(task, predicted[0]).items():
        folder.write(file, text)
    lines = setup.lines or [{"step": 0, "metrics": metrics}]
    for line in lines:
        folder.log(line)
    result = TrainingResult(
        run=str(folder.path),
        model=str(folder.model),
        task=task.name,
        steps=lines[-1]["step"],
        losses=setup.losses,
        best_step=_best_step(setup),
        metrics=metrics,
        seed=config.seed,
        split="dev" if setup.dev else CROSS_VALIDATED,
        notes=[METHODS[config.method].explained, *found.notes(task), *filter(None, [task.warning])],
        data=summarize_data(setup),
        collapsed=not found.is_constant and is_collapsed(task, predicted[0]),
    )
    result = replace(result, next=next_commands(setup, result))
    write_reports(folder, result, scored, task)
    return result


def _cross_validated(setup: Fitting, found: Baseline) -> Predictions:
    """The predictions for each part of the training examples of what is fitted to the others; of a constant, its own."""
    from bertcli.lifecycle.scoring.cross_validation import cross_validate

    task, examples = setup.task, setup.train.examples
    if found.is_constant:  # means of folds correlate
        return found.predict(task, examples)

    def predict(fitted: Any, left: Any) -> Predictions:
        of_fold = replace(setup, train=replace(setup.train, examples=examples.take(fitted.tolist())))
        return found.fit(of_fold).predict(task, examples.take(left.tolist()))

    return cross_validate(task, cast(TextExamples, examples), predict)


def _best_step(setup: Fitting) -> int:
    """The first step with the best score on dev, whose weights are kept."""
    scores = {line["step"]: line["metrics"][setup.task.metrics[0]] for line in setup.lines if "metrics" in line}
    return max(scores, key=scores.__getitem__, default=0)
