"""Use a model: labels, values, answers and fills for texts."""

from __future__ import annotations

import csv
import json
import logging
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import IO, Any

from transformers import AutoConfig

from bertcli.config import PredictConfig
from bertcli.data.documents import read_lines
from bertcli.data.own_file import PAIR_NAMES, TEXT_NAMES, choice_columns, named
from bertcli.data.tables import TABLE_ENDINGS, Rows, ending_of, read_rows
from bertcli.data.task_files import text_examples
from bertcli.errors import UserError
from bertcli.hidden_states import write_hidden_states
from bertcli.models.loading import kind_of
from bertcli.predictor import MASK, Predictor
from bertcli.scoring import Record
from bertcli.training.run_folder import RunFolder, find_runs, resolve_model

logger = logging.getLogger("bertcli")
ROWS_AT_ONCE = 2048
# What is given, the kinds of models that take it, and what makes one.
FITS = {
    "text": (("classify", "regress", "multilabel", "tag"), "bert finetune glue/sst2"),
    "pair": (("classify", "regress", "multilabel"), "bert finetune glue/mnli"),
    "choices": (("choose",), "bert finetune swag"),
    "question": (("span",), "bert finetune squad"),
    "features": ((), "bert pretrain"),
    "mask": (("fill", "classify", "regress", "multilabel", "tag"), "bert pretrain"),
}
NEEDS = {
    "": "fine-tuning first", "tag": "one text", "choose": "a text with choices", "span": "a question with its context",
    "fill": "a text with [MASK] in it",
}  # fmt: skip


@dataclass(frozen=True)
class Predictions:
    """What a model says of each input, in input order; a file's predictions are in `output` when one was given."""

    model: str
    kind: str
    count: int
    output: str | None = None
    records: list[Record] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """The result as plain values."""
        return asdict(self)


def predict(config: PredictConfig | str | None = None, **options: Any) -> Predictions:
    """Predict for one text, a pair, a question with its context, a text with `[MASK]`, or a file of them.

    Raises:
        UserError: if nothing was given to predict for, or no model here fits it.
    """
    if isinstance(config, str):
        config, options = None, {"text": config, **options}
    config = PredictConfig.build(config, options)
    rows, wanted, run = _inputs(config)
    if run and not config.model and wanted != "mask":
        logger.info("model: %s (the newest run with a column `%s`)", run.path, run.config["text"])
        config = replace(config, model=str(run.path))
    if config.features:
        return _features(config, rows, wanted)
    model = _model(config, wanted)
    kind = _kind(model, wanted)
    if config.dry_run:
        return Predictions(model, kind, 0)
    predictor = Predictor.load(model, kind, config)
    records = (record for chunk in _chunks(rows) for record in predictor(chunk))
    if config.output:
        return Predictions(model, kind, _write(records, Path(config.output)), config.output)
    found = list(records)
    return Predictions(model, kind, len(found), None, found)


def _features(config: PredictConfig, rows: Iterator[Record], given: str) -> Predictions:
    """The hidden states of texts or pairs, whatever the model was trained for."""
    if given in ("choices", "question") or config.output:
        raise UserError(
            "--features takes texts or pairs, and is itself the file to write.",
            "Give --text or --file, and no --output.",
        )
    model = _model(config, "features")
    count = 0 if config.dry_run else write_hidden_states(model, rows, config)
    return Predictions(model, "features", count, config.features)


def _inputs(config: PredictConfig) -> tuple[Iterator[Record], str, RunFolder | None]:
    """The inputs as rows, the kind of model that they want, and the run whose columns a table has."""
    given = [name for name in ("text", "question", "file") if getattr(config, name) is not None]
    if len(given) != 1:
        what = "Nothing to predict for." if not given else f"--{given[0]} and --{given[1]} do not go together."
        raise UserError(what, 'Give one: --text "..." or --question "..." --context "..." or --file FILE')
    if config.choice and (config.text is None or config.text_pair is not None or len(config.choice) < 2):
        raise UserError(
            "--choice goes with --text alone, and there are two at least.",
            'Give all: --text "..." --choice "..." --choice "..."',
        )
    if config.question is not None or config.context is not None:
        if config.question is None or config.context is None:
            raise UserError(
                "A question needs its context, and a context a question.", 'Give both: --question "..." --context "..."'
            )
        row: Record = {"question": config.question, "context": config.context}
    elif config.text is not None:
        row = {"text": config.text, **({"text_pair": config.text_pair} if config.text_pair is not None else {})}
        if config.choice:
            row["choices"] = config.choice
    else:
        return _file_rows(config, str(config.file))
    return iter([row]), _form(row), None


def _form(row: Record) -> str:
    """What is given: a question, choices, a pair, a text with a mask or without."""
    for key, form in {"question": "question", "choices": "choices", "text_pair": "pair"}.items():
        if key in row:
            return form
    return "mask" if MASK in row["text"] else "text"


def _file_rows(config: PredictConfig, name: str) -> tuple[Iterator[Record], str, RunFolder | None]:
    """The rows of a file; a plain text file has one text a line."""
    path, run = Path(name), None
    if name == "-":
        rows: Iterator[Record] = ({"text": line.rstrip("\n")} for line in sys.stdin)
    elif path.is_file() and ending_of(path) not in TABLE_ENDINGS:
        rows = ({"text": line} for line in read_lines(path))
    else:
        table = read_rows(path)
        run = _run_of(config, table)
        rows = _table_rows(table, run.config if run else {})
    first = next(rows, None)
    if first is None:
        raise UserError(f"`{name}` holds nothing to predict for.", "Put one text on each line.")
    return _put_back(first, rows), _form(first), run


def _put_back(first: Record, rows: Iterator[Record]) -> Iterator[Record]:
    yield first
    yield from rows


def _run_of(config: PredictConfig, table: Rows) -> RunFolder | None:
    """The run, named or the newest, that was fine-tuned on the column of text that this table has."""
    if config.model:
        folder = Path(resolve_model(config.model)).parent
        runs = [RunFolder(folder)] if (folder / "config.yaml").exists() else []
    else:
        runs = find_runs("finetune", finished=True)
    return next((run for run in runs if run.config.get("text") in table.names), None)


def _table_rows(table: Rows, saved: Record) -> Iterator[Record]:
    """The columns of a table that are the input: those of the run, or by their names."""
    names = table.names
    text = saved.get("text") or named(TEXT_NAMES, names) or (names[0] if len(names) == 1 else None)
    pair = saved.get("text_pair") if saved else named(PAIR_NAMES, names)
    choices = choice_columns(names, saved.get("text"))
    if {"question", "context"} <= set(names) and not saved:
        columns = {"question": "question", "context": "context"}
    elif choices:
        columns = choices
    elif text:
        columns = {"text": text, **({"text_pair": pair} if pair else {})}
    else:
        raise UserError(f"`{table.path}` has no column `text`.", f"Rename one of its columns: {', '.join(names)}.")
    cells: dict[str, list[Any]] = {key: table.column(name) for key, name in columns.items()}
    first, *_ = columns
    logger.info("%s: %s", table.path, ", ".join(f"{key} = `{name}`" for key, name in columns.items()))
    empty = [row for row, text in enumerate(cells[first]) if not text.strip()]
    if empty:
        logger.info(
            "%s: %s rows have no %s; the first is %s", table.path, f"{len(empty):,}", first, table.place(empty[0])
        )
    if choices:
        examples = text_examples(cells, str(table.path))
        cells = {"text": examples.texts, "choices": examples.choices or []}
    yield from (dict(zip(cells, row, strict=True)) for row in zip(*cells.values(), strict=True))


def _model(config: PredictConfig, wanted: str) -> str:
    """The model as given, else that of the newest run that fits the input."""
    if config.model:
        return resolve_model(config.model)
    kinds, make = FITS[wanted]
    if wanted in ("mask", "features"):
        runs = find_runs("pretrain", finished=True)
    else:
        runs = [run for run in find_runs("finetune", finished=True) if run.config.get("kind") in kinds]
    if not runs:
        raise UserError("There is no run here that fits this input.", f"Make one: {make}; or name a --model.")
    logger.info("model: %s (the newest run that fits)", runs[0].path)
    return str(runs[0].model)


def _kind(model: str, wanted: str) -> str:
    try:
        config = AutoConfig.from_pretrained(model)
    except (OSError, ValueError) as error:
        raise UserError(
            f"The model `{model}` cannot be opened: {str(error).splitlines()[0]}",
            "Give a run, a model folder or a Hub name.",
        ) from None
    kind = kind_of(config)
    if kind not in FITS[wanted][0]:
        raise UserError(
            f"The model `{model}` ({', '.join(config.architectures or [])}) needs {NEEDS.get(kind, 'a text')}.",
            "Give it that, or name another --model.",
        )
    return kind


def _chunks(rows: Iterator[Record]) -> Iterator[list[Record]]:
    while chunk := list(islice(rows, ROWS_AT_ONCE)):
        yield chunk


def _write(records: Iterable[Record], path: Path) -> int:
    """Write records as they come: JSON lines, CSV or TSV by the file's ending; return how many."""
    if path.suffix not in (".jsonl", ".json", ".csv", ".tsv"):
        raise UserError(f"`{path}` is not CSV, TSV or JSONL.", "Give --output a name such as predictions.csv.")
    if path.is_dir() or not path.parent.exists():
        raise UserError(f"`{path}` cannot be written.", "Give --output a file in a folder that exists.")
    part = path.with_name(f".{path.name}.part")
    with part.open("w", encoding="utf-8", newline="") as file:
        count = _write_rows(records, file, path.suffix)
    part.replace(path)
    logger.info("wrote %s: %s predictions", path, f"{count:,}")
    return count


def _write_rows(records: Iterable[Record], file: IO[str], ending: str) -> int:
    count = 0
    writer: Any = None
    for record in records:
        count += 1
        if ending.startswith(".json"):
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
            continue
        flat = _flat(record)
        if writer is None:
            writer = csv.DictWriter(
                file, list(flat), delimiter="\t" if ending == ".tsv" else ",", extrasaction="ignore"
            )
            writer.writeheader()
        writer.writerow(flat)
    return count


def _flat(record: Record) -> Record:
    """A record in columns: one a label for probabilities, one for fills; other lists as JSON."""
    flat: Record = {}
    for key, value in record.items():
        if key == "scores" and isinstance(value, dict):
            flat |= {f"score {name}": share for name, share in value.items()}
        elif key == "fills":
            flat["fills"] = " ".join(fill["token"] for fill in value)
        else:
            flat[key] = json.dumps(value, ensure_ascii=False) if isinstance(value, list) else value
    return flat
