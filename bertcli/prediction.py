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

import numpy as np
import torch
from transformers import AutoConfig

from bertcli.config import PredictConfig
from bertcli.data.batches import pack
from bertcli.data.documents import read_lines
from bertcli.data.prepared import Prepared, encode_split
from bertcli.data.span_answers import Answer
from bertcli.data.span_features import WindowRules
from bertcli.data.squad import SpanExample, split_words
from bertcli.data.task_files import TextExamples, read_rows
from bertcli.data.tokenization import WordPiece, load_tokenizer
from bertcli.errors import UserError
from bertcli.models.heads import Objective
from bertcli.models.loading import load_model
from bertcli.scoring import Record, Scorer, load_scorer
from bertcli.tasks.task import Files, Task
from bertcli.training.device import inference_device
from bertcli.training.run_folder import RunFolder, find_runs, resolve_model

logger = logging.getLogger("bertcli")
ROWS_AT_ONCE = 2048
MASK = "[MASK]"
KIND_OF_ARCHITECTURE = {
    "SequenceClassification": "classify",
    "QuestionAnswering": "span",
    "PreTraining": "fill",
    "MaskedLM": "fill",
}


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
    rows, wanted = _inputs(config)
    model = _model(config, wanted)
    kind = _kind(model, wanted)
    if config.dry_run:
        return Predictions(model, kind, 0)
    predictor = _Predictor.load(model, kind, config)
    records = (record for chunk in _chunks(rows) for record in predictor(chunk))
    if config.output:
        return Predictions(model, kind, _write(records, Path(config.output)), config.output)
    found = list(records)
    return Predictions(model, kind, len(found), None, found)


def _inputs(config: PredictConfig) -> tuple[Iterator[Record], str]:
    """The inputs as rows, and the kind of model that they want."""
    given = [name for name in ("text", "question", "file") if getattr(config, name) is not None]
    if len(given) != 1:
        what = "Nothing to predict for." if not given else f"--{given[0]} and --{given[1]} do not go together."
        raise UserError(what, 'Give one: --text "..." or --question "..." --context "..." or --file FILE')
    if config.question is not None or config.context is not None:
        if config.question is None or config.context is None:
            raise UserError(
                "A question needs its context, and a context a question.", 'Give both: --question "..." --context "..."'
            )
        return iter([{"question": config.question, "context": config.context}]), "span"
    if config.text is not None:
        row = {"text": config.text, **({"text_pair": config.text_pair} if config.text_pair is not None else {})}
        return iter([row]), "fill" if MASK in config.text and config.text_pair is None else "classify"
    return _file_rows(str(config.file))


def _file_rows(name: str) -> tuple[Iterator[Record], str]:
    """The rows of a file; a plain text file has one text a line."""
    path = Path(name)
    if name == "-":
        rows: Iterator[Record] = ({"text": line.rstrip("\n")} for line in sys.stdin)
    elif path.is_file() and not path.suffix.startswith((".csv", ".tsv", ".json", ".parquet")):
        rows = ({"text": line} for line in read_lines(path))
    else:
        names, found = read_rows(path)
        rows = (_named_row(row, names, path) for row in found)
    first = next(rows, None)
    if first is None:
        raise UserError(f"`{name}` holds nothing to predict for.", "Put one text on each line.")
    wanted = "span" if "question" in first else "fill" if MASK in first["text"] else "classify"
    return _put_back(first, rows), wanted


def _put_back(first: Record, rows: Iterator[Record]) -> Iterator[Record]:
    yield first
    yield from rows


def _named_row(row: Record, names: list[str], path: Path) -> Record:
    if {"question", "context"} <= set(names):
        return {"question": str(row["question"]), "context": str(row["context"])}
    text = next(
        (name for name in ("text", "sentence", "sentence1") if name in names), names[0] if len(names) == 1 else None
    )
    if text is None:
        raise UserError(f"`{path}` has no column `text`.", f"Rename one of its columns: {', '.join(names)}.")
    pair = next((name for name in ("text_pair", "sentence2") if name in names), None)
    return {"text": str(row[text]), **({"text_pair": str(row[pair])} if pair else {})}


def _model(config: PredictConfig, wanted: str) -> str:
    """The model as given, else that of the newest run that fits the input."""
    if config.model:
        return resolve_model(config.model)
    if wanted == "fill":
        runs = find_runs("pretrain", finished=True)
    else:
        kinds = ("classify", "regress") if wanted == "classify" else ("span",)
        runs = [run for run in find_runs("finetune", finished=True) if run.config.get("kind") in kinds]
    if not runs:
        make = {"fill": "bert pretrain", "span": "bert finetune squad", "classify": "bert finetune glue/sst2"}[wanted]
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
    architecture = (config.architectures or [""])[0]
    kind = next((kind for name, kind in KIND_OF_ARCHITECTURE.items() if name in architecture), "")
    if kind == "classify" and config.problem_type == "regression":
        kind = "regress"
    if (wanted == "span") != (kind == "span") or (kind == "fill" and wanted != "fill"):
        needs = {"span": "a question with its context", "fill": "a text with [MASK] in it"}.get(kind, "a text")
        raise UserError(
            f"The model `{model}` ({architecture}) takes {needs}.", "Give it that, or name another --model."
        )
    return kind


def _chunks(rows: Iterator[Record]) -> Iterator[list[Record]]:
    while chunk := list(islice(rows, ROWS_AT_ONCE)):
        yield chunk


@dataclass(frozen=True)
class _Predictor:
    """A loaded model with what turns rows into its inputs."""

    scorer: Scorer
    kind: str
    top_k: int

    @classmethod
    def load(cls, model: str, kind: str, config: PredictConfig) -> _Predictor:
        tokenizer = load_tokenizer(model)
        if kind == "fill":
            device = inference_device()
            objective = Objective(load_model("pretrain", model), "pretrain").to(device).eval()
            scorer = Scorer(_task("classify"), objective, tokenizer, WindowRules(max_query_length=0), device)
        else:
            run = RunFolder(Path(model).parent)
            saved = run.config if (run.path / "config.yaml").exists() else {}
            scorer = load_scorer(_task(kind, saved.get("task")), model, tokenizer, saved, config.precision)
        return cls(scorer, kind, config.top_k)

    def __call__(self, rows: list[Record]) -> list[Record]:
        if self.kind == "fill":
            return [_fill(self.scorer, row["text"], self.top_k) for row in rows]
        if self.kind == "span":
            return self._answers(rows)
        pairs = [row["text_pair"] for row in rows] if "text_pair" in rows[0] else None
        texts = TextExamples([row["text"] for row in rows], pairs, None, "the input")
        return self.scorer.predict(_encode_quietly(self.scorer, Prepared("input", texts)))

    def _answers(self, rows: list[Record]) -> list[Record]:
        questions = [SpanExample(str(i), row["question"], split_words(row["context"])[0]) for i, row in enumerate(rows)]
        records = self.scorer.predict(_encode_quietly(self.scorer, Prepared("input", questions=questions)))
        return [
            _placed(record.pop("answer_object"), row["context"], record)
            for record, row in zip(records, rows, strict=True)
        ]


def _encode_quietly(scorer: Scorer, prepared: Prepared) -> Prepared:
    """Encode; only what was cut is worth a word."""
    level = logger.level
    logger.setLevel(max(level, logging.WARNING))
    encoded = encode_split(scorer.task, prepared, scorer.tokenizer, scorer.rules)
    logger.setLevel(level)
    if encoded.features is not None and encoded.features.truncated:
        logger.info("%d inputs were longer than the model takes and were cut", encoded.features.truncated)
    return encoded


def _task(kind: str, name: str | None = None) -> Task:
    """A task without data: all that prediction needs is the kind, and whether there may be no answer."""
    return Task(name or "input", kind, Files({}, {}), ("", None), (), max_seq_length=384 if kind == "span" else 512)  # type: ignore[arg-type]


def _placed(answer: Answer, context: str, record: Record) -> Record:
    """Find where the answer stands in the context, in characters."""
    word = next((c.first_word for c in answer.n_best if c.text == answer.text), -1)
    word_of_character = split_words(context)[1]
    start = -1
    if answer.text and word >= 0:
        start = context.find(answer.text, word_of_character.index(word))
    found = start >= 0
    return {
        "answer": record["answer"],
        "score": record["score"],
        "start": start if found else None,
        "end": start + len(answer.text) if found else None,
    }


@torch.inference_mode()
def _fill(scorer: Scorer, text: str, top_k: int) -> Record:
    """The most probable tokens for each [MASK] of a text."""
    tokenizer: WordPiece = scorer.tokenizer
    parts = tokenizer.encode_ids(text.split(MASK))
    ids = [tokenizer.special("cls")]
    masks = []
    for index, part in enumerate(parts):
        if index:
            masks.append(len(ids))
            ids.append(tokenizer.special("mask"))
        ids += part
    ids.append(tokenizer.special("sep"))
    longest = scorer.objective.model.config.max_position_embeddings
    if len(ids) > longest or not masks:
        what = f"The text has {len(ids)} tokens; the model takes {longest}." if masks else "A line has no [MASK] in it."
        raise UserError(what, "Shorten it." if masks else "Put [MASK] where a word is to be filled in.")
    batch = pack(np.array(ids), np.zeros(len(ids), dtype=np.int64), np.array([len(ids)]), np.array([0]))
    batch = replace(batch, labels={"masked_lm_positions": torch.tensor(masks)}).to(scorer.device)
    shares = torch.softmax(scorer.objective.outputs(batch)["masked_lm"].float(), dim=-1)  # [masks, V]
    best = shares[:, : tokenizer.size].topk(min(top_k, tokenizer.size))
    tokens = tokenizer.tokens
    fills = [
        {"token": tokens[int(token)], "score": round(float(share), 6), **({"mask": mask} if len(masks) > 1 else {})}
        for mask, (row, scores) in enumerate(zip(best.indices, best.values, strict=True))
        for token, share in zip(row, scores, strict=True)
    ]
    return {"fills": fills}


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
    """A record in columns: one a label for probabilities, one for fills."""
    flat: Record = {}
    for key, value in record.items():
        if key == "scores":
            flat |= {f"score {name}": share for name, share in value.items()}
        elif key == "fills":
            flat["fills"] = " ".join(fill["token"] for fill in value)
        else:
            flat[key] = value
    return flat
