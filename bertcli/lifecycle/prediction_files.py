"""Files of predictions: predictions as JSON lines, CSV or TSV, and the official files of SQuAD."""

import csv
import json
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from typing import IO

from bertcli import say
from bertcli.errors import UserError
from bertcli.kinds.types import Prediction

FORMS = {
    "--output": ("CSV, TSV or JSONL", (".csv", ".tsv", ".jsonl", ".json")),
    "--features": ("Parquet, .npz or JSONL", (".parquet", ".npz", ".jsonl")),
}


def write_official(files: dict[str, str], path: Path, count: int) -> int:
    """Write official predictions to a file, those that belong to them beside it, under its name; return `count`."""
    prefix = "" if path.name in files else f"{path.stem}-"
    main, *_ = files
    for name, text in files.items():
        place = path if name == main else path.with_name(prefix + name)
        place.write_text(text, encoding="utf-8")
        say(f"wrote {place}")
    return count


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


def write_predictions(predictions: Iterable[Prediction], path: Path) -> int:
    """Write predictions as they come: JSON lines, CSV or TSV by the file's ending; return how many.

    Raises:
        UserError: if it cannot be written; what stands in it when anything ends the writing stays.
    """
    predictions = iter(predictions)
    first = next(predictions, None)  # where nothing can be predicted, an older file is kept
    count = 0
    try:
        file = path.open("w", encoding="utf-8", newline="", buffering=1)
    except OSError as error:
        raise UserError(f"`{path}` cannot be written: {error.strerror}.", "Give --output another file.") from None
    try:
        with file:
            write = _writer(file, path.suffix, first or {})
            for prediction in chain([first] if first else [], predictions):
                write(prediction)
                count += 1
    finally:
        say(f"wrote {path}: {count:,} predictions")
    return count


def _writer(file: IO[str], ending: str, first: Prediction) -> Callable[[Prediction], object]:
    """What writes a prediction to a file; the first one names the columns."""
    if ending.startswith(".json"):
        return lambda prediction: file.write(json.dumps(prediction, ensure_ascii=False) + "\n")
    writer = csv.DictWriter(file, list(_flat(first)), delimiter="\t" if ending == ".tsv" else ",")
    writer.writeheader()
    return lambda prediction: writer.writerow(_flat(prediction))


def _flat(prediction: Prediction) -> Prediction:
    """A prediction in columns: one a label for probabilities; lists as JSON."""
    flat: Prediction = {}
    for key, value in prediction.items():
        if key == "scores" and isinstance(value, dict):
            flat |= {f"score {name}": share for name, share in value.items()}
        else:
            flat[key] = json.dumps(value, ensure_ascii=False) if isinstance(value, list) else value
    return flat
