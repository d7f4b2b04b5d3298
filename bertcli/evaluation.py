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
from bertcli.data.conll import read_conll
from bertcli.data.own_splits import looks_like_file
from bertcli.data.prepared import Prepared, Source, encode_split, find_source, read_split
from bertcli.data.tables import read_rows
from bertcli.data.text_features import split_labels
from bertcli.data.tokenization import load_tokenizer
from bertcli.errors import UserError
from bertcli.scoring import Record, load_scorer, score
from bertcli.tasks import TASKS, get_task
from bertcli.tasks.task import Task
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
    run = None if (config.predictions or config.na_probs) and not config.model else _run_for(config)
    saved = run.config if run else {}
    columns = {key: saved.get(key) for key in ("text", "text_pair", "label")}
    data_dir = config.data_dir or saved.get("data_dir")
    same = Path(saved.get("task", "")).resolve() == Path(config.task).resolve()
    own = {"scored": config.split, "learnt": same and not config.predictions}
    source = find_source(config.task, data_dir, columns, saved.get("kind"), saved.get("seed", 0), **own)
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
    path = _existing(str(config.predictions), "--predictions")
    prepared = read_split(source, config.split)
    records = READ_PREDICTIONS.get(source.task.kind, _row_predictions)(path, source.task, prepared)
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


def _span_predictions(path: Path, task: Task, prepared: Prepared) -> list[Record]:
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


def _tag_predictions(path: Path, task: Task, prepared: Prepared) -> list[Record]:
    """Read `tags`, a list a sentence, of JSON lines; or words with their tags in columns, as CoNLL has them."""
    if ".jsonl" not in path.suffixes:
        return [{"tags": tags} for tags in read_conll(path).tags or []]
    rows = read_rows(path)
    if "tags" not in rows.names:
        raise UserError(f"`{path}` has no `tags`.", f"It has {', '.join(rows.names)}.")
    return [{"tags": row["tags"]} for row in rows.cells]


def _row_predictions(path: Path, task: Task, prepared: Prepared) -> list[Record]:
    """Read a column of predictions, a row an example."""
    column, values = _prediction_column(path)
    if column == "choice":  # counts from 0, as `bert predict` writes it; a label is spelled as the data spell it
        task = replace(task, file_labels=())
    if task.kind == "regress":
        try:
            return [{"value": _finite(value)} for value in values]
        except ValueError:
            raise UserError(f"`{path}` holds values that are not numbers.", "Give a number a row.") from None
    if task.kind == "multilabel":
        separator = task.files.label_separator
        several = (split_labels(value, separator, f"`{path}`") for value in values)
        return [{"labels": _known_labels(labels, task, path)} for labels in several]
    labels = _known_labels(values, task, path)
    return [{"choice": task.labels.index(label)} if task.kind == "choose" else {"label": label} for label in labels]


def _prediction_column(path: Path) -> tuple[str, list[str]]:
    rows = read_rows(path)
    column = next((name for name in PREDICTION_COLUMNS if name in rows.names), None)
    if column is None:
        raise UserError(
            f"`{path}` has no column `label`, `prediction` or `value`.", f"Its columns: {', '.join(rows.names)}."
        )
    return column, rows.column(column)


def _known_labels(given: list[str], task: Task, path: Path) -> list[str]:
    """Labels as the task has them, which files may spell otherwise."""
    spelled = dict(zip(task.file_labels, task.labels, strict=False))
    labels = [spelled.get(label, label) for label in given]
    strange = next((label for label in labels if label not in task.labels), None)
    if strange is not None:
        raise UserError(
            f"`{path}` has the label `{strange}`, which {task.name} has not.",
            f"Its labels: {', '.join(task.labels[:20])}.",
        )
    return labels


PREDICTION_COLUMNS = ("label", "labels", "choice", "prediction", "pred", "value")
READ_PREDICTIONS = {"tag": _tag_predictions, "span": _span_predictions}
