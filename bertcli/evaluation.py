"""Score a model, or a file of predictions, on a task."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from bertcli.config import EvaluateConfig
from bertcli.data.prepared import Prepared, Source, encode_split, find_source, read_split
from bertcli.data.span_features import WindowRules
from bertcli.data.task_files import read_rows
from bertcli.data.tokenization import WordPiece, load_tokenizer
from bertcli.errors import UserError
from bertcli.models.heads import Objective
from bertcli.models.loading import check_length, check_vocabulary, load_model
from bertcli.scoring import Record, Scorer, score
from bertcli.tasks import TASKS
from bertcli.tasks.task import Task
from bertcli.training.device import inference_device, resolve_precision
from bertcli.training.run_folder import RunFolder, find_runs, resolve_model

logger = logging.getLogger("bertcli")
Value = TypeVar("Value")


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
    run = None if config.predictions or config.na_probs else _run_for(config)
    saved = run.config if run else {}
    columns = {key: saved.get(key) for key in ("text", "text_pair", "label")}
    data_dir = config.data_dir or saved.get("data_dir")
    source = replace(find_source(config.task, data_dir, columns, saved.get("kind")), whole_file=True)
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
    source_name = config.task if config.task in TASKS else None
    name = source_name or find_source(config.task, None, {}).task.name
    runs = find_runs("finetune", finished=True, task=name)
    if not runs and name not in TASKS:
        runs = [run for run in find_runs("finetune", finished=True) if run.config["task"] not in TASKS]
    if not runs:
        raise UserError(
            f"There is no finished run of {name} here.", f"Make one: bert finetune {config.task}; or name a --model."
        )
    logger.info("model: %s (the newest run of %s)", runs[0].path, name)
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


def load_scorer(task: Task, model: str, tokenizer: WordPiece, saved: dict[str, Any], precision: str) -> Scorer:
    """Load a fine-tuned model for a task; its labels, by name and order, are the model's."""
    loaded = load_model(task.kind, model)
    if task.kind == "classify":
        task = replace(task, labels=_model_labels(loaded.config.id2label, task, model))
    rules = WindowRules(
        saved.get("max_seq_length") or min(task.max_seq_length, loaded.config.max_position_embeddings),
        saved.get("doc_stride") or 128, (saved.get("max_query_length") or 64) if task.kind == "span" else 0,
    )  # fmt: skip
    check_vocabulary(loaded, tokenizer, model)
    check_length(loaded, rules.max_seq_length)
    device = inference_device()
    objective = Objective(loaded, task.kind).to(device)
    return Scorer(task, objective, tokenizer, rules, device, resolve_precision(precision))


def _model_labels(id2label: dict[int, str], task: Task, model: str) -> tuple[str, ...]:
    """The model's label names in its own order; names that say nothing (LABEL_0) are taken in the task's order."""
    names = tuple(id2label[index] for index in range(len(id2label)))
    if not task.labels or set(names) == set(task.labels):
        return names
    if len(names) == len(task.labels) and all(name.startswith("LABEL_") for name in names):
        logger.info("the labels of %s have no names; taken in the order %s", model, ", ".join(task.labels))
        return task.labels
    if set(task.labels) <= set(names):
        return names
    raise UserError(
        f"The model `{model}` knows the labels {', '.join(names[:8])}, not those of {task.name}.",
        f"Give a model of the task: --model RUN, or make one: bert finetune {task.name}",
    )


def _score_file(source: Source, config: EvaluateConfig) -> Evaluation:
    """Score predictions that somebody made before."""
    path = _existing(str(config.predictions), "--predictions")
    prepared = read_split(source, config.split)
    records = _span_predictions(path, prepared) if source.task.kind == "span" else _row_predictions(path, source.task)
    if config.na_probs:
        records = _with_null_odds(records, _existing(config.na_probs, "--na-probs"))
    if source.task.kind != "span" and len(records) != len(prepared):
        raise UserError(
            f"`{path}` has {len(records)} predictions, the {config.split} split of {source.task.name} {len(prepared)} examples.",
            "Give one prediction an example, in the order of the split.",
        )
    metrics = score(source.task, prepared, records)
    return _evaluation(source.task, config.split, str(path), len(prepared), metrics)


def _existing(name: str, option: str) -> Path:
    path = Path(name)
    if not path.exists():
        raise UserError(f"There is no file `{path}`.", f"Give {option} a file.")
    if path.is_dir():
        raise UserError(f"`{path}` is a folder.", f"Give {option} a file in it.")
    return path


def _by_question(path: Path, convert: Callable[[Any], Value], form: str) -> dict[str, Value]:
    """Read a JSON object of question ids and values."""
    try:
        return {str(key): convert(value) for key, value in json.loads(path.read_text(encoding="utf-8")).items()}
    except (ValueError, TypeError, AttributeError):
        raise UserError(
            f"`{path}` is not a JSON object of question ids and {form}s.", f"Give the official form: {{id: {form}}}."
        ) from None


def _with_null_odds(records: list[Record], path: Path) -> list[Record]:
    """Add the no-answer scores, and put the records into the order of their file, which decides between equal ones."""
    odds = _by_question(path, _finite, "number")
    without = sum(r["id"] not in odds and r["answer"] not in ("", NO_PREDICTION) for r in records)
    if without:
        raise UserError(
            f"`{path}` has no number for {without:,} of the questions that are answered.",
            "Give the null_odds.json that was written beside the predictions.",
        )
    place = {id_: number for number, id_ in enumerate(odds)}
    ordered = sorted(records, key=lambda record: place.get(record["id"], -1))
    return [
        {**record, "null_odds": None if record["answer"] == NO_PREDICTION else odds.get(record["id"])}
        for record in ordered
    ]


def _finite(value: Any) -> float:
    if not math.isfinite(float(value)):
        raise ValueError
    return float(value)


def _span_predictions(path: Path, prepared: Prepared) -> list[Record]:
    """Read {question: answer}; a question without one scores 0, and is counted."""
    answers = _by_question(path, str, "text")
    known = {question.id for question in prepared.questions}
    given = set(answers)
    if known and not known & given:
        raise UserError(f"`{path}` answers none of the questions of this split.", "Check --split and the task.")
    if known - given:
        logger.info("%s questions have no prediction; they score 0", f"{len(known - given):,}")
    if given - known:
        logger.info("%s predictions are of unknown questions; they are left out", f"{len(given - known):,}")
    return [{"id": question.id, "answer": answers.get(question.id, NO_PREDICTION)} for question in prepared.questions]


# What is scored for a question that a file leaves out: no true answer equals it, not even an empty one.
NO_PREDICTION = "\N{REPLACEMENT CHARACTER}"


def _row_predictions(path: Path, task: Task) -> list[Record]:
    """Read a column `label`, `prediction` or `value`, a row an example."""
    names, rows = read_rows(path)
    column = next((name for name in ("label", "prediction", "value") if name in names), None)
    if column is None:
        raise UserError(
            f"`{path}` has no column `label`, `prediction` or `value`.", f"Its columns: {', '.join(names)}."
        )
    values = [str(row[column]) for row in rows]
    if task.kind == "regress":
        try:
            return [{"value": _finite(value)} for value in values]
        except ValueError:
            raise UserError(f"`{path}` holds values that are not numbers.", "Give a number a row.") from None
    spelled = dict(zip(task.file_labels, task.labels, strict=False))
    labels = [spelled.get(value, value) for value in values]
    strange = next((label for label in labels if label not in task.labels), None)
    if strange is not None:
        raise UserError(
            f"`{path}` has the label `{strange}`, which {task.name} has not.",
            f"Its labels: {', '.join(task.labels[:20])}.",
        )
    return [{"label": label} for label in labels]
