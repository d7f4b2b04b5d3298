"""Train a small student on the answers of a large teacher, at pre-training or at a task."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any, cast

from bertcli.config.architecture import PARTS, check_new_weights
from bertcli.config.distillation import AT_PRETRAINING, TARGETS, DistillConfig
from bertcli.config.options import flag
from bertcli.config.training import FinetuneConfig, TrainingConfig
from bertcli.data.json_files import read_json
from bertcli.data.text.tables import check_file
from bertcli.errors import UserError, unknown
from bertcli.lifecycle.distilling.layers import COUNTS, layers_of
from bertcli.lifecycle.finetune import train_on_task
from bertcli.lifecycle.predictor import check_learnt
from bertcli.lifecycle.workspace import find_runs, latest_pretraining_data, resolve_model
from bertcli.tasks.task import Task
from bertcli.training.result import PRETRAINING, TrainingResult
from bertcli.training.run_folder import MEND, RunFolder

AT_BOTH = {each.name for each in fields(TrainingConfig)}
AT_BOTH |= {"task", "family", "size", *PARTS, "max_seq_length", "batch_size", "learning_rate", "optimizer"}
AT_TASKS = {"unlabelled", "label_weight", *(each.name for each in fields(FinetuneConfig))} - AT_BOTH


def distill(task: DistillConfig | str = "", **options: Any) -> TrainingResult:
    """Train a student on a teacher's answers, and write a run folder like that of a pre-training or a fine-tuning.

    Raises UserError if the teacher, the student and the data do not fit together, or a resumed run had another teacher;
    Interrupted after Ctrl-C, with the checkpoint saved.
    """
    asked = _with_task(DistillConfig.build(task, options))
    is_pretraining = asked.task in ("", PRETRAINING)
    _check_options(asked, is_pretraining)
    _check_places(asked, is_pretraining)
    if is_pretraining:
        from bertcli.lifecycle.distilling.pretraining import distill_pretraining

        return distill_pretraining(asked)
    if not (asked.from_ or asked.resume):  # layers of the teacher, or new weights
        asked = asked.build(asked, {"from_": "scratch" if asked.size else asked.teacher})
    return train_on_task("distill", asked, "distill-", load=_load_distilling)


def _check_places(asked: DistillConfig, is_pretraining: bool) -> None:
    """Raise UserError if there is no such teacher, layer or data, before torch is imported."""
    saved = read_json(Path(resolve_model(asked.teacher), "config.json"), MEND) if asked.teacher else {}
    of_teacher = next((saved[name] for name in COUNTS if saved.get(name)), 0)
    if (asked.layers or asked.teacher_layers) and of_teacher:
        layers_of(of_teacher, asked)
    if is_pretraining and not (asked.data or asked.vocab_from_text or asked.resume):
        latest_pretraining_data()


def _with_task(asked: DistillConfig) -> DistillConfig:
    """The request with the task of the run that is resumed, where none is named."""
    if asked.task or not asked.resume:
        return asked
    runs = [RunFolder(Path(asked.out))] if asked.out else find_runs("distill", finished=False)
    saved = next((run.config for run in runs if (run.path / "config.yaml").exists()), {})
    return asked.build(asked, {"task": saved.get("task", "")})


def _load_distilling(config: FinetuneConfig, task: Task) -> Any:
    asked = cast(DistillConfig, config)
    if asked.teacher:
        check_learnt(task, resolve_model(asked.teacher))
    for name in asked.unlabelled:
        check_file(Path(name), "Give --unlabelled a text, CSV, TSV, JSONL or Parquet file.")
    from bertcli.lifecycle.distilling.task import Distilling

    return Distilling


def _check_options(config: DistillConfig, is_pretraining: bool) -> None:
    """Raise UserError if there is no teacher, or an option is for the other sort of distillation."""
    if not (config.teacher or config.resume):
        task = f"{config.task} " * (not is_pretraining)
        raise UserError("Which teacher? None was given.", f"Name one: bert distill {task}--teacher RUN")
    if not config.resume:
        _check_sort(config, is_pretraining)
    for each in config.targets:
        if each not in TARGETS:
            raise unknown("value for --targets:", each, TARGETS)
    if config.from_ == "scratch" and not config.size:
        raise UserError("--from scratch needs a size.", "Give one: --size tiny")
    if config.frozen:
        raise UserError("--frozen does not go with a teacher.", "Leave it out.")
    is_named = config.from_ not in (None, "scratch", config.teacher)
    if sum(map(bool, (config.layers, config.teacher_layers, config.size, is_named))) > 1:
        what = "--layers, --teacher-layers, --size and --from each say what the student starts from."
        raise UserError(what, "Give one of them.")
    if not config.resume:
        check_new_weights(config, "scratch" if config.size else config.teacher)


def _check_sort(config: DistillConfig, is_pretraining: bool) -> None:
    """Raise UserError if an option is for the other sort of distillation."""
    others = AT_TASKS if is_pretraining else AT_PRETRAINING
    where, hint = "pre-training", "Leave it out, or leave out the task."
    if is_pretraining:
        where, hint = "a task", "Leave it out, or name the task: bert distill glue/sst2"
    for declared in fields(config):
        if declared.name in others & config.given:
            raise UserError(f"{flag(declared)} is for distillation at {where}.", hint)
