"""Score a model, or a file of predictions, on a task."""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bertcli.config import EvaluateConfig
from bertcli.data.own_splits import looks_like_file
from bertcli.data.predictions import kind_of_predictions, read_predictions
from bertcli.data.prepared import Source, encode_split, find_source, read_split
from bertcli.data.tokenization import load_tokenizer
from bertcli.errors import UserError
from bertcli.scoring import load_scorer, score
from bertcli.tasks import TASKS, get_task
from bertcli.tasks.task import Task
from bertcli.training.run_folder import RunFolder, find_runs, resolve_model

logger = logging.getLogger("bertcli")


@dataclass(frozen=True)
class Evaluation:
    """The scores of a model or of a file of predictions, times 100, as the paper prints them; thresholds are not."""

    task: str
    split: str
    model: str
    examples: int
    metrics: dict[str, float]
    paper: dict[str, float]

    def to_json(self) -> dict[str, Any]:
        """The result as `--json` prints it."""
        return asdict(self)


def evaluate(task: EvaluateConfig | str, **options: Any) -> Evaluation:
    """Score a model on a split of a task, or an existing file of predictions (then no model is needed).

    Raises:
        UserError: if there is no model or no data for the task.
    """
    config = EvaluateConfig.build(task, options)
    if not config.task:
        raise UserError("Which task? None was given.", "Name one: bert evaluate glue/sst2; `bert tasks` lists them.")
    run = None if (config.predictions or config.na_probs) and not config.model else _run_for(config)
    saved = run.config if run else {}
    columns = {key: saved.get(key) for key in ("text", "text_pair", "label")}
    data_dir = config.data_dir or saved.get("data_dir")
    same = Path(saved.get("task", "")).resolve() == Path(config.task).resolve()
    own = {"scored": config.split, "learnt": same and not config.predictions}
    kind = saved.get("kind")
    if config.predictions and looks_like_file(config.task):
        kind = kind or kind_of_predictions(config.predictions)
    source = find_source(config.task, data_dir, columns, kind, saved.get("seed", 0), **own)
    if config.na_probs and not (config.predictions and source.task.kind == "span"):
        raise UserError(
            "--na-probs belongs to --predictions of questions.",
            "Give both: bert evaluate squad_v2 --predictions predictions.json --na-probs null_odds.json",
        )
    if data_dir and not config.data_dir:
        logger.info("data: %s (the run's)", data_dir)
    if config.dry_run:
        logger.info(
            "would score %s on %s", config.predictions or config.model or (run.path if run else ""), source.task.name
        )
        return Evaluation(source.task.name, config.split, config.predictions or "", 0, {}, {})
    if config.predictions:
        return _score_file(source, config)
    return _score_model(source, config, str(run.model) if run else resolve_model(str(config.model)), saved)


def _run_for(config: EvaluateConfig) -> RunFolder | None:
    """The run to score: as given, else the newest finished one of the task."""
    if config.model:
        path = Path(config.model)
        return RunFolder(path) if (path / "config.yaml").exists() and (path / "model").exists() else None
    task = None if looks_like_file(config.task) else get_task(config.task)
    name = str(Path(config.task)) if task is None else task.learnt_as or task.name
    runs = find_runs("finetune", finished=True, task=name)
    if not runs and name not in TASKS:
        runs = [run for run in find_runs("finetune", finished=True) if run.config["task"] not in TASKS]
    if not runs:
        raise UserError(
            f"There is no finished run of {name} here.", f"Make one: bert finetune {name}; or name a --model."
        )
    logger.info("model: %s (the newest run of %s)", runs[0].path, runs[0].config["task"])
    return runs[0]


def _score_model(source: Source, config: EvaluateConfig, model: str, saved: dict[str, Any]) -> Evaluation:
    tokenizer = load_tokenizer(model)
    scorer = load_scorer(source.task, model, tokenizer, saved, config.precision)
    read = read_split(source, config.split)
    prepared = encode_split(scorer.task, read, tokenizer, scorer.rules)
    metrics = score(source.task, prepared, scorer.predict(prepared))
    return _evaluation(source.task, config.split, model, len(prepared), metrics)


def _evaluation(task: Task, split: str, model: str, examples: int, metrics: dict[str, float]) -> Evaluation:
    return Evaluation(task.name, split, model, examples, metrics, task.paper_scores(split))


def _score_file(source: Source, config: EvaluateConfig) -> Evaluation:
    """Score predictions that somebody made before."""
    path = str(config.predictions)
    prepared = read_split(source, config.split)
    records = read_predictions(source.task, prepared, path, config.na_probs)
    metrics = score(source.task, prepared, records)
    return _evaluation(source.task, config.split, path, len(prepared), metrics)
