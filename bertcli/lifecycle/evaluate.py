"""Score models, or a file of predictions, on a task."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from heapq import nlargest
from operator import itemgetter
from pathlib import Path
from typing import Any

from bertcli import quietly, say
from bertcli.config.use import EvaluateConfig
from bertcli.data.labelled.examples import TextExamples
from bertcli.data.labelled.own_labels import counted, listed
from bertcli.data.labelled.own_splits import SPLIT_NAMES, looks_like_file, own_files
from bertcli.data.labelled.prediction_table import in_other_case
from bertcli.data.text import tables
from bertcli.errors import UserError, quoted, unknown
from bertcli.kinds import KINDS
from bertcli.kinds.kind import Kind, Split, unlabelled
from bertcli.kinds.types import Mistake, Prediction
from bertcli.lifecycle import workspace
from bertcli.lifecycle.own_files import form_of
from bertcli.lifecycle.predictor import Predictor, check_engine, check_learnt, load_for_task
from bertcli.lifecycle.scoring.intervals import Scored, beside, score_split, worst_mistakes
from bertcli.lifecycle.sources import (
    Lost,
    Source,
    check_options,
    count_learnt,
    describe_split,
    has_dev,
    is_of,
    learnt_before,
    source_of,
)
from bertcli.reports.evaluation import Evaluation
from bertcli.tasks import get_task, is_task
from bertcli.tasks.task import Task
from bertcli.training.progress import Progress
from bertcli.training.result import TrainingResult
from bertcli.training.run_folder import RunFolder


def evaluate(task: EvaluateConfig | str, **options: Any) -> Evaluation:
    """Score a model, or a file of predictions, on a split of a task (MNLI: on both dev sets).

    Of several models, the `others` are compared with the first on the same resamples of the examples. Raises UserError
    if there is no model or no data for the task, or several models were not scored on the same examples.
    """
    config = EvaluateConfig.build(task, options)
    if not config.task:
        raise UserError("Which task? None was given.", "Name one: bert evaluate glue/sst2; `bert tasks` lists them.")
    _check_are_no_runs(config)
    check_options(config)
    check_engine(config.engine)
    if config.predictions and len(config.model) > 1:
        raise UserError("--predictions are scored alone.", "Leave out --model, or all but the run that they are of.")
    if config.predictions and (idle := {"precision", "engine"} & config.given):
        raise UserError(f"--predictions are there already: --{min(idle)} has no effect.", "Leave it out.")
    models: list[str | None] = [*config.model] or [None]
    found = [list(_evaluate(config, model)) for model in models]  # one model in memory at a time
    by_split: Iterator[tuple[Scored, ...]] = zip(*found, strict=False)
    first, *splits = (replace(one.evaluation, others=[beside(one, each) for each in more]) for one, *more in by_split)
    return replace(first, other_splits=splits)


def _check_are_no_runs(config: EvaluateConfig) -> None:
    """Raise UserError if a run was named in the place of the data, or beside them, as another --model."""
    parts = config.task.split(",")
    for name in parts:
        if is_task(name) or (Path(name).exists() and not (Path(name) / "config.yaml").exists()):
            continue
        here = (Path(name), workspace.RUNS / name)
        if run := next((run for run in workspace.run_folders() if run.path in here), None):
            data = [part for part in parts if part != name] or [run.config.get("task", "FILE")]
            models = [f"--model {quoted(each)}" for each in (*config.model, run.path)]
            hint = f"Name what it is scored on: bert evaluate {' '.join([*map(quoted, data), *models])}"
            raise UserError(f"`{name}` is a run.", hint)


def _evaluate(config: EvaluateConfig, model: str | None) -> Iterator[Scored]:
    """The evaluations of one model, or of predictions: one per split."""
    model, saved, source = _checked(config, model)
    task = source.task
    found = "" if config.predictions else workspace.resolve_model(model)
    if found:
        check_learnt(task, found)
    if config.dry_run:
        say(f"would score {config.predictions or model} on {task.name}")
        nothing = Evaluation(task.name, config.split, config.predictions or "", 0)
        yield Scored(nothing, Split("", TextExamples([], origin="")), {}, {})
        return
    splits = _read(source, config)
    if config.predictions:
        na_probs = Path(config.na_probs) if config.na_probs else None
        predictions = source.kind.read_predictions(task, splits[0], Path(config.predictions), na_probs)
        worst = worst_mistakes(task, splits[0], predictions, config.mistakes)
        yield score_split(task, config.predictions, splits[0], predictions, worst)
        return
    remarks = list(_remarks(config, found, saved, source, splits[0]))
    loaded = load_for_task(task, found, config.precision, config.engine)
    for remark in remarks:
        say(remark)
    remarks = [*filter(None, [RunFolder(Path(found).parent).unfinished]), *remarks]
    for split in splits:
        scored = score_split(task, found, split, *_predicted(loaded, task, split, config.mistakes))
        baseline = _baseline(found, saved, split)
        yield replace(scored, evaluation=replace(scored.evaluation, baseline=baseline, remarks=remarks))


def _baseline(model: str, saved: dict[str, Any], split: Split) -> dict[str, dict[str, Any]]:
    """The scores of the guess and of a bag of words that a run has kept, if they are of the same examples."""
    folder = RunFolder(Path(model).parent)
    if saved.get("data_digests", {}).get(split.name) != split.examples.digest or not folder.is_finished:
        return {}
    result = TrainingResult.read(folder.path)
    return result.baseline if result.split == split.name else {}


def _remarks(config: EvaluateConfig, model: str, saved: dict[str, Any], source: Source, split: Split) -> Iterator[str]:
    """What may make a score higher than that of a model on unknown texts."""
    left_out = saved.get("data_digests", {}).get("dev")
    run, is_whole = Path(model).parent, source.own is not None and not saved.get("limit_dev")
    is_cut = is_whole and config.split == "dev" and is_of(saved, config.task) and has_dev(saved)
    if is_cut and left_out and split.examples.digest != left_out:
        yield f"{config.task} has changed since {run} was trained on it: what is scored may hold training examples"
    if learnt := count_learnt(saved, split):
        which = "these examples" if learnt == len(split) else f"{learnt:,} of these {len(split):,} examples"
        yield f"{run} was trained on {which}: its scores on them say little of new ones"
    before = learnt_before(saved, split, config.task if is_cut else None, left_out)
    yield from filter(
        None, (before, *_remarks_on_run(RunFolder(run), source, split), workspace.remark_on(model, source.task.name))
    )


def _remarks_on_run(folder: RunFolder, source: Source, split: Split) -> Iterator[str]:
    has_labels = (folder.path / "config.yaml").exists() and folder.labels and source.kind.names_outputs
    if has_labels and (new := _not_learnt(source.kind, folder, source.kind.labels_of(source.task, split.examples))):
        yield f"{folder.path} has not learnt all labels of {split.name}; others count as errors{counted(new)}"


def _not_learnt(kind: Kind, run: RunFolder, labels: Iterable[str]) -> Counter[str]:
    """The labels that a run has not learnt; upper and lower case are the same where only one label is meant."""
    counts = Counter(labels)
    with quietly():
        known = {*run.labels, *in_other_case(run.labels, counts, "").values()}
    return kind.not_learnt(counts, known)


def _check_has_dev(config: EvaluateConfig, saved: dict[str, Any], model: str | None) -> None:
    """Raise UserError if a dev set would be cut off examples that the run was trained on."""
    is_whole = config.split == "dev" and not (config.predictions or has_dev(saved)) and is_of(saved, config.task)
    files = own_files(config.task) if is_whole else {}
    if "train" in files and "dev" not in files:
        what = f"`{config.task}` has no dev set, and {model} was trained on its whole train set."
        on_test = f"Score the test set: bert evaluate {quoted(config.task)} --split test"
        how = on_test if "test" in files else "Give others: bert evaluate FILE"
        raise UserError(what, f"{how} --model {quoted(model)}")


def _checked(config: EvaluateConfig, model: str | None) -> tuple[str, dict[str, Any], Source]:
    """The model, if one is needed, its run's configuration and the data. Raises UserError if they do not fit together."""
    if config.predictions:
        tables.check_file(Path(config.predictions), "Give --predictions a file.")
    elif not (model or config.na_probs):
        model = str(_latest_run(config).path)
    saved = workspace.saved_config(workspace.resolve_model(model)) if model else {}
    if model and config.predictions and not saved:
        raise UserError(f"`{model}` is not a run.", "Leave --model out, or give the run that the predictions are of.")
    _check_has_dev(config, saved, model)
    _check_labels(config, saved)
    source = source_of(config, saved)
    if config.na_probs and not (config.predictions and source.kind.max_query_length):
        hint = "Give both: bert evaluate squad_v2 --predictions predictions.json --na-probs null_odds.json"
        raise UserError("--na-probs belongs to --predictions of questions.", hint)
    return model or "", saved, source


def _check_labels(config: EvaluateConfig, *saved: dict[str, Any]) -> None:
    """Refuse own files that have the column of the texts of runs, and of none of these that of its labels."""
    if config.label or not looks_like_file(config.task) or form_of(files := own_files(config.task), None):
        return
    (file, *_), *_ = files.values()
    with quietly():
        names = {*tables.stream_table(file)[0]}
    labels = [str(each["label"]) for each in saved if each.get("text") in names]
    if labels and not any({label, *label.split(",")} & names for label in labels):
        hint = f"Predict: bert predict --file {quoted(file)}; or name the column of the labels: --label COLUMN"
        raise UserError(f"`{config.task}` has no column `{labels[0]}`, whose labels it would be scored by.", hint)


def _read(source: Source, config: EvaluateConfig) -> list[Split]:
    """The splits to score. Raises UserError if one is empty or has no labels."""
    has_all = config.split == "dev" and not config.predictions
    splits = [source.read(split) for split in (source.dev_splits if has_all else [config.split])]
    for split in splits:
        if not len(split):
            raise UserError(f"The {split.name} split of {source.task.name} has no examples.", "Check the file.")
        if not split.examples.is_labelled:
            raise unlabelled(source.task, split)
    return splits


def _latest_run(config: EvaluateConfig) -> RunFolder:
    """The latest finished run of the task; for own files the latest that learnt from them, else that fits them."""
    if not looks_like_file(config.task):
        task = get_task(config.task)
        return workspace.run_of_task(task.learnt_as or task.name)
    name = str(Path(config.task))
    if workspace.task_runs(task=name):
        return workspace.run_of_task(name)
    own_files(config.task)  # before what can be done with them
    if config.split not in SPLIT_NAMES.values():
        raise unknown("split", config.split, {*SPLIT_NAMES.values()})
    try:
        return workspace.run_that_fits(partial(_misfit, config), f"for `{name}`", shlex.join(name.split(",")))
    except UserError:
        _check_labels(config, *(run.config for run in workspace.task_runs()))
        raise


def _misfit(config: EvaluateConfig, run: RunFolder) -> str:
    """Why a run cannot be scored on own files: another kind, other columns or other labels; "" if it can."""
    kind = KINDS[run.config["kind"]]
    try:
        with quietly():
            form = form_of(own_files(config.task), run.config.get("label") if "label" in kind.own_columns else None)
            if form is not kind and (form or not kind.reads_tables):
                return f"is of the kind `{kind.name}`"
            source = source_of(config, run.config)
            labels = [*dict.fromkeys(kind.labels_of(source.task, _read(source, config)[0].examples))]
    except UserError as error:
        message = error.message.rstrip(".")
        return f"cannot read it ({message[:1].lower()}{message[1:]})"
    others = [*_not_learnt(kind, run, labels)] if kind.names_outputs else []
    if kind.has_rare_labels and 2 * len(others) < len(labels):
        return ""
    what, named = ("has not learnt", others) if len(others) < len(labels) else ("has other labels", run.labels)
    return f"{what}{listed(named, 2)}" if others else ""


def _predicted(loaded: Predictor, task: Task, split: Split, mistakes: int) -> tuple[list[Prediction], list[Mistake]]:
    """The answers of a model, and its most confident errors; a part of the examples is encoded at a time."""
    kind, answers, worst, lost = loaded.kind, list[Prediction](), list[Mistake](), list[Lost]()
    once: dict[str, Prediction] = {}  # equal answers are held once
    most, size = tables.CHARACTERS_AT_ONCE, split.examples.size
    parts = tables.chunks_of(range(len(split)), most, lambda row: tables.CHARACTERS_OF_A_ROW + size(row))
    with Progress("scoring", len(split), "examples") as progress:
        for rows in parts:
            part = Split(split.name, split.examples.take(rows))
            predictions, lost_of_part = loaded.predict_part(part)
            lost.append(lost_of_part)
            with quietly():
                found = worst_mistakes(task, part, predictions, mistakes)
            for _, mistake in found:
                if "example" in mistake:
                    mistake["example"] += rows[0]
            worst = nlargest(mistakes, [*worst, *found], key=itemgetter(0))
            kept = ({key: each[key] for key in (kind.says, *kind.compared_with) if key in each} for each in predictions)
            answers += (once.setdefault(str(each), each) for each in kept)
            progress.advance(len(rows))
    say(describe_split(split, lost))
    return answers, worst
