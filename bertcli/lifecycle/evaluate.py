"""Score models, or a file of predictions, on a task."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bertcli import say
from bertcli.config.use import EvaluateConfig
from bertcli.data.labelled.official_files import TextExamples
from bertcli.data.labelled.own_splits import looks_like_file
from bertcli.data.labelled.predictions import kind_of_predictions, read_predictions
from bertcli.data.labelled.tables import check_file
from bertcli.errors import UserError
from bertcli.lifecycle.scoring import Record, check_labelled, compare, load_scorer, measure, metric_of, score_labels
from bertcli.lifecycle.sources import Prepared, Source, check_options, dev_splits, find_source, read_split
from bertcli.metrics.bootstrap import confidence_interval, resampled_scores
from bertcli.metrics.metric import Array
from bertcli.reports.evaluation import Evaluation
from bertcli.reports.mistakes import worst_mistakes
from bertcli.tasks import get_task, is_task
from bertcli.tasks.task import Task
from bertcli.training.run_folder import RunFolder, find_runs, newest_run, resolve_model, saved_config


@dataclass(frozen=True)
class _Scored:
    """An evaluation with what another one is compared by: the examples, and the scores of resampled ones."""

    evaluation: Evaluation
    examples: Prepared
    resampled: dict[str, Array]


def evaluate(task: EvaluateConfig | str, **options: Any) -> Evaluation:
    """Score a model on a split of a task, or an existing file of predictions (then no model is needed).

    A task with two dev sets, MNLI, is scored on both. Of several models the first is scored, and the `others` are
    compared with it, on the same resamples of the examples.

    Raises:
        UserError: if there is no model or no data for the task, or several models were not scored on the same examples.
    """
    config = EvaluateConfig.build(task, options)
    if not config.task:
        raise UserError("Which task? None was given.", "Name one: bert evaluate glue/sst2; `bert tasks` lists them.")
    check_options(config)
    if config.predictions and len(config.model) > 1:
        raise UserError("--predictions are scored alone.", "Leave out --model, or all but the run that they are of.")
    models: list[str | None] = [*config.model] or [None]
    first, *splits = map(_compared, *[list(_evaluate(config, model)) for model in models])
    return replace(first, other_splits=splits)


def _evaluate(config: EvaluateConfig, model: str | None) -> Iterator[_Scored]:
    """The evaluations of one model, or of predictions: of several splits where the task has two dev sets."""
    if config.predictions:
        check_file(Path(config.predictions), "Give --predictions a file.")
    if not (model or config.predictions or config.na_probs):
        model = str(_newest(config).path)
    found = resolve_model(model) if model else ""
    saved = saved_config(found) if found else {}
    if model and config.predictions and not saved:
        raise UserError(f"`{model}` is not a run.", "Leave --model out, or give the run that the predictions are of.")
    source = _source(config, saved)
    if config.na_probs and not (config.predictions and source.task.kind == "span"):
        raise UserError(
            "--na-probs belongs to --predictions of questions.",
            "Give both: bert evaluate squad_v2 --predictions predictions.json --na-probs null_odds.json",
        )
    if config.dry_run:
        say(f"would score {config.predictions or model} on {source.task.name}")
        yield _Scored(
            Evaluation(source.task.name, config.split, config.predictions or "", 0),
            Prepared("", TextExamples([], origin="")),
            {},
        )
        return
    if config.predictions:
        read = _read(source, config.split)
        records = read_predictions(source.task, read, Path(config.predictions), config.na_probs)
        yield _scored(source.task, config, config.predictions, read, records)
        return
    splits = dev_splits(source) if config.split == "dev" else [config.split]
    reads = {split: _read(source, split) for split in splits}
    is_cut = config.split == "dev" and source.own_file and _has_learnt(saved, config.task)
    left_out = saved.get("data_digests", {}).get("dev")
    if is_cut and left_out and reads["dev"].examples.digest != left_out:
        say(f"{config.task} has changed since {model} learnt from it: what is scored may hold what it learnt")
    scorer = load_scorer(source.task, found, config.precision)
    for split, read in reads.items():
        yield _scored(source.task, replace(config, split=split), found, read, scorer.predict(read))


def _read(source: Source, split: str) -> Prepared:
    read = read_split(source, split)
    if not len(read):
        raise UserError(f"The {split} split of {source.task.name} has no examples.", "Check the file.")
    check_labelled(source.task, read)
    return read


def _source(config: EvaluateConfig, saved: dict[str, Any]) -> Source:
    """The data to score on; what the options do not say of own data, the saved configuration of the run does."""
    if not looks_like_file(config.task):
        data_dir = config.data_dir or saved.get("data_dir")
        if data_dir and not config.data_dir:
            say(f"data: {data_dir} (the run's)")
        return find_source(config.task, data_dir, {})
    columns = {key: getattr(config, key) or saved.get(key) for key in ("text", "text_pair", "label")}
    kind = config.kind or saved.get("kind")
    if config.predictions:
        kind = kind or kind_of_predictions(Path(config.predictions))
    own = {"scored": config.split, "learnt": _has_learnt(saved, config.task)}
    return find_source(config.task, None, columns, kind, saved.get("seed", 0), **own)


def _has_learnt(saved: dict[str, Any], name: str) -> bool:
    """Whether a run learnt from the file, of which it then left out a dev set."""
    return Path(saved.get("task", "")).resolve() == Path(name).resolve()


def _newest(config: EvaluateConfig) -> RunFolder:
    """The newest finished run of the task; of own files that none has learnt from, the newest of others."""
    task = None if looks_like_file(config.task) else get_task(config.task)
    name = str(Path(config.task)) if task is None else task.learnt_as or task.name
    own = [] if task else [run for run in find_runs("finetune", finished=True) if not is_task(run.config["task"])]
    return newest_run(name, *own)


def _scored(task: Task, config: EvaluateConfig, model: str, read: Prepared, records: list[Record]) -> _Scored:
    compared = compare(task, read, records)
    metrics = measure(task, compared)
    resampled = resampled_scores(metric_of(task).weighted(**compared), len(read))
    resampled = {name: resampled[name] for name in metrics if name in resampled}
    labels, confusion = score_labels(task, records, compared)
    evaluation = Evaluation(
        task.name,
        config.split,
        model,
        len(read),
        metrics,
        task.paper_scores(config.split),
        task.paper_splits(config.split),
        {name: confidence_interval(scores) for name, scores in resampled.items()},
        labels,
        confusion,
        worst_mistakes(task, read, records, compared, config.mistakes),
    )
    return _Scored(evaluation, read, resampled)


def _compared(first: _Scored, *others: _Scored) -> Evaluation:
    """The evaluation of the first model on a split, with those of the others beside it."""
    return replace(first.evaluation, others=[_beside(first, other) for other in others])


def _beside(first: _Scored, other: _Scored) -> Evaluation:
    """The other evaluation with its differences to the first; one is significant whose interval is without 0."""
    if other.examples != first.examples:
        raise UserError(
            f"`{first.evaluation.model}` and `{other.evaluation.model}` are not scored on the same examples.",
            "Each run has held out its own part of a file: give a file that none has learnt from, or the same --data-dir.",
        )
    to_first = {}
    for name in [name for name in first.resampled if name in other.resampled]:
        low, high = confidence_interval(other.resampled[name] - first.resampled[name])
        difference = round(other.evaluation.metrics[name] - first.evaluation.metrics[name], 6)
        to_first[name] = {
            "difference": difference,
            "confidence_interval": [low, high],
            "significant": low > 0 or high < 0,
        }
    return replace(other.evaluation, to_first=to_first)
