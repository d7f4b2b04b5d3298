"""Train a pre-trained BERT on one task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from bertcli import say
from bertcli.config.architecture import check_new_weights
from bertcli.config.combinations import check_finetuning
from bertcli.config.training import WINDOWS, FinetuneConfig
from bertcli.data.json_files import read_json
from bertcli.data.labelled.own_splits import looks_like_file, run_name
from bertcli.errors import UserError, check_positions, flag_of
from bertcli.families import family_of, get_family
from bertcli.kinds import KINDS
from bertcli.kinds.kind import Split
from bertcli.lifecycle.defaults import FROZEN_EPOCHS, FROZEN_LEARNING_RATE
from bertcli.lifecycle.finetuning.sweep import FROZEN_LAYERS, settings_of
from bertcli.lifecycle.pretrained import is_sentence_encoder
from bertcli.lifecycle.sources import Source, check_options, find_source
from bertcli.lifecycle.start import begin, check_batch_size
from bertcli.lifecycle.workspace import model_to_start_from, resolve_model
from bertcli.tasks import get_task, is_task
from bertcli.tasks.task import Task
from bertcli.training.result import CROSS_VALIDATED, TrainingResult
from bertcli.training.run_folder import MEND


def _load_finetuning(config: FinetuneConfig, task: Task) -> Any:
    from bertcli.lifecycle.finetuning.run import Finetuning

    return Finetuning


def finetune(task: FinetuneConfig | str, **options: Any) -> TrainingResult:
    """Fine-tune a model on a task or on the user's own files and write a run folder.

    The best checkpoint on the dev set, by the task's first metric, is kept in `model/`; with `seeds` or a `grid` that of
    the best run, each of which has a sub-folder. Raises UserError if something is missing or does not fit; Interrupted
    after Ctrl-C, with the checkpoint saved.
    """
    return train_on_task("finetune", FinetuneConfig.build(task, options))


def with_family(config: FinetuneConfig) -> FinetuneConfig:
    """The options with the defaults of the family of the model that is given. Raises UserError if there is no such model."""
    if config.from_ in (None, "scratch"):
        family = get_family(config.family)
    else:
        family = family_of(read_json(Path(resolve_model(str(config.from_)), "config.json"), MEND).get("model_type", ""))
    return config.with_defaults(family.finetuning_defaults)


def train_on_task(
    command: str,
    asked: FinetuneConfig,
    prefix: str = "",
    load: Callable[[FinetuneConfig, Task], Any] = _load_finetuning,
) -> TrainingResult:
    """What `finetune` does, for a command whose class of fine-tuning is loaded once the request is checked."""
    if not asked.resume:
        check_options(asked)
    if is_task(asked.task):
        asked.task = get_task(asked.task).name  # one name of a run, however the task was spelled
    name = run_name(asked.task) if looks_like_file(asked.task) else asked.task.replace("/", "-").lower()
    config, folder = begin(command, asked, prefix + name)
    if not config.task:
        raise UserError("Which task? None was given.", "Name one: bert finetune glue/sst2; `bert tasks` lists them.")
    settings = settings_of(config)
    columns = {"text": config.text, "text_pair": config.text_pair, "label": config.label}
    source = find_source(config.task, config.data_dir, columns, config.kind, config.seed)
    config, source = _checked(config, source)
    resumed = folder.start if config.resume and folder.start.exists() else None
    if resumed:
        start, trains_on_all = str(config.from_), CROSS_VALIDATED in folder.config
    else:
        start = model_to_start_from(config.from_, config.size)
        check_new_weights(config, start)
        if command == "finetune" and config.family and start != "scratch":
            hint = f"Leave it out, or give both: --from scratch --size mini --family {config.family}"
            raise UserError("--family is for new weights only.", hint)
        _check_length(config.max_seq_length, start)
        trains_on_all = _trains_on_all(config, source, start)
    source = source.for_training(trains_on_all)
    splits = _splits(config, source)
    training = load(config, source.task).prepare(config, source, start, splits, resumed)
    return cast(TrainingResult, training.run(settings, folder))


def _splits(config: FinetuneConfig, source: Source) -> list[Split]:
    """The training set and the dev sets."""
    idle = [flag_of(name) for name in ("eval_steps", "limit_dev") if getattr(config, name)]
    if idle and not (config.resume or source.dev_splits):
        has = ("has", "have")[len(idle) > 1]
        say(f"no examples are held out of training, so {' and '.join(idle)} {has} no effect")
    return source.read_to_train(config.limit, config.limit_dev)


def _check_length(max_seq_length: int | None, start: str) -> None:
    """Raise UserError if texts are to be longer than a model's configuration allows, before the model is loaded."""
    saved = read_json(Path(resolve_model(start), "config.json"), MEND) if start != "scratch" else {}
    if (positions := saved.get("max_position_embeddings") or 0) > 0:  # -1 in XLNet's
        check_positions(max_seq_length or 0, positions)


def _trains_on_all(config: FinetuneConfig, source: Source, start: str) -> bool:
    """Whether a dev set would be too small to say much, while frozen states can be cross-validated, and none is needed."""
    needs_dev = config.seeds > 1 or config.grid or config.patience or config.frozen or start == "scratch"
    return bool(source.is_small and not needs_dev and is_sentence_encoder(resolve_model(start)))


def _checked(config: FinetuneConfig, source: Source) -> tuple[FinetuneConfig, Source]:
    """The request with what a frozen model or windows change. Raises UserError if an option does not go with the task."""
    task = source.task
    if task.learnt_as:
        hint = f"Make one: bert finetune {task.learnt_as}; then: bert evaluate {task.name}"
        raise UserError(f"{task.name} has no training data; models of {task.learnt_as} are scored on it.", hint)
    check_batch_size(config.batch_size or task.batch_size, config.processes)
    if task.warning:
        say(f"note on {task.name}: {task.warning}")
    check_finetuning(config, task)
    config = _with_stride(config, task)
    if config.frozen:
        config = replace(config, frozen_layers=config.frozen_layers or FROZEN_LAYERS)
        source = replace(source, task=replace(task, learning_rate=FROZEN_LEARNING_RATE, epochs=FROZEN_EPOCHS))
    return config, source


def _with_stride(config: FinetuneConfig, task: Task) -> FinetuneConfig:
    """The request with windows that do not overlap, unless it gives a stride."""
    in_windows, window = config.long_texts == WINDOWS, config.max_seq_length or task.max_seq_length
    if "doc_stride" not in config.given:
        return replace(config, doc_stride=window) if in_windows else config
    is_usual = config.doc_stride == FinetuneConfig.doc_stride  # as --print-config writes it
    if in_windows and config.doc_stride > window:
        say(f"--doc-stride {config.doc_stride} is longer than a window, so windows do not overlap")
    elif not (in_windows or config.resume or is_usual) and KINDS[task.kind].has_linear_head:
        say("--doc-stride has no effect without --long-texts windows")
    return config
