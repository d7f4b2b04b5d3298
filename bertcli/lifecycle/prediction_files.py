"""Files of predictions: records as JSON lines, CSV or TSV, and the official files of SQuAD."""

import csv
import json
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from typing import IO

from bertcli import say
from bertcli.errors import UserError
from bertcli.lifecycle.scoring import Record
from bertcli.tasks.task import Task

FORMS = {
    "--output": ("CSV, TSV or JSONL", (".csv", ".tsv", ".jsonl", ".json")),
    "--features": ("Parquet, .npz or JSONL", (".parquet", ".npz", ".jsonl")),
}


def files_of_split(task: Task, records: list[Record]) -> dict[str, str]:
    """The predictions of a split as names and texts of files: JSON lines, or the official files of SQuAD."""
    if task.kind != "span":
        return {"predictions.jsonl": "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)}
    answers = [record["answer_object"] for record in records]
    n_best = {
        answer.id: [
            {"text": c.text, "probability": c.probability, "start_logit": c.start_logit, "end_logit": c.end_logit}
            for c in answer.n_best
        ]
        for answer in answers
    }
    files = {"predictions.json": {answer.id: answer.text for answer in answers}, "nbest_predictions.json": n_best}
    if task.with_impossible:
        files["null_odds.json"] = {answer.id: answer.null_odds for answer in answers if answer.null_odds is not None}
    return {name: json.dumps(values, indent=4) + "\n" for name, values in files.items()}


def write_answers(task: Task, records: list[Record], path: Path) -> int:
    """Write the official predictions of SQuAD to a file, those that belong to them beside it, under its name."""
    prefix = "" if path.name == "predictions.json" else f"{path.stem}-"
    for name, text in files_of_split(task, records).items():
        place = path if name == "predictions.json" else path.with_name(prefix + name)
        place.write_text(text, encoding="utf-8")
        say(f"wrote {place}")
    return len(records)


def check_output(option: str, path: Path, source: str | None) -> None:
    """Check that an option can write its file.

    Raises:
        UserError: if its ending is of no known kind, it cannot be written, or it is the file of the inputs.
    """
    forms, endings = FORMS[option]
    if path.suffix not in endings:
        raise UserError(f"`{path}` is not {forms}.", f"Give {option} a name such as {option[2:]}{endings[0]}.")
    if path.is_dir() or not path.parent.exists():
        raise UserError(f"`{path}` cannot be written.", f"Give {option} a file in a folder that exists.")
    if source and path.exists() and Path(source).exists() and path.samefile(source):
        raise UserError(f"`{path}` holds the inputs.", f"Give {option} another name.")


def write_records(records: Iterable[Record], path: Path) -> int:
    """Write records as they come: JSON lines, CSV or TSV by the file's ending; return how many.

    Raises:
        UserError: if it cannot be written; what stands in it when anything ends the writing stays.
    """
    records = iter(records)
    first = next(records, None)  # where nothing can be predicted, an older file is kept
    count = 0
    try:
        file = path.open("w", encoding="utf-8", newline="", buffering=1)
    except OSError as error:
        raise UserError(f"`{path}` cannot be written: {error.strerror}.", "Give --output another file.") from None
    try:
        with file:
            write = _writer(file, path.suffix, first or {})
            for record in chain([first] if first else [], records):
                write(record)
                count += 1
    finally:
        say(f"wrote {path}: {count:,} predictions")
    return count


def _writer(file: IO[str], ending: str, first: Record) -> Callable[[Record], object]:
    """What writes a record to a file; the first one names the columns."""
    if ending.startswith(".json"):
        return lambda record: file.write(json.dumps(record, ensure_ascii=False) + "\n")
    writer = csv.DictWriter(file, list(_flat(first)), delimiter="\t" if ending == ".tsv" else ",")
    writer.writeheader()
    return lambda record: writer.writerow(_flat(record))


def _flat(record: Record) -> Record:
    """A record in columns: one a label for probabilities; lists as JSON."""
    flat: Record = {}
    for key, value in record.items():
        if key == "scores" and isinstance(value, dict):
            flat |= {f"score {name}": share for name, share in value.items()}
        else:
            flat[key] = json.dumps(value, ensure_ascii=False) if isinstance(value, list) else value
    return flat
