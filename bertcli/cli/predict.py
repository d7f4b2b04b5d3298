"""`bert predict`: use a model on a text, a pair, choices, a question, a file or a split of a task."""

import sys
from typing import Any

from bertcli.cli.console import Output
from bertcli.cli.main import app
from bertcli.cli.options import command
from bertcli.config.use import PredictConfig
from bertcli.data.labelled.tables import chunks_of

EXAMPLES = """
bert predict --text "a gripping, beautiful film"
bert predict --text "Paris is the [MASK] of France."
bert predict --text "She closed the door and" --choice "left." --choice "ate the moon."
bert predict --question "Who wrote it?" --context "It was written by Ada."
bert predict --file reviews.txt --output predictions.csv
bert predict --file reviews.txt --features states.parquet --layers concat-last-four
bert predict squad --data-dir data --split dev --output predictions.json
"""

ROWS_IN_A_TABLE = 1000  # of a long file, which is shown as it comes


@command(app, PredictConfig, "predict", EXAMPLES)
def predict_command(config: PredictConfig, output: Output) -> None:
    """Use a model on a text, a pair, choices, a question, a file or a split of a task."""
    from bertcli.lifecycle.predict import stream

    result = stream(config)
    if result.output:
        if output.json:
            output.emit({"model": result.model, "output": result.output, "predictions": result.count})
    elif config.task and result.kind == "span" and not config.dry_run:
        output.emit({record["id"]: record["answer"] for record in result.records})
    elif output.json or config.output == "-" or not sys.stdout.isatty():
        for record in result.records:
            output.emit(record)
    else:
        for records in chunks_of(result.records, ROWS_IN_A_TABLE):
            _show(records, output)


def _show(records: list[dict[str, Any]], output: Output) -> None:
    if len(records) == 1:
        _show_one(records[0], output)
    else:
        rows = [_plain(record) for record in records]
        output.table(list(rows[0]), [list(row.values()) for row in rows])


def _show_one(record: dict[str, Any], output: Output) -> None:
    parts = record.get("fills") or record.get("entities")
    if isinstance(record.get("scores"), dict):
        best = sorted(record["scores"].items(), key=lambda item: -item[1])[:5]
        output.table(["label", "probability"], best)
    elif parts:
        output.table(list(parts[0]), [list(part.values()) for part in parts])
    else:
        output.table(list(_plain(record)), [list(_plain(record).values())])


def _plain(record: dict[str, Any]) -> dict[str, Any]:
    """A record on one line: without the probabilities of all labels, lists as words."""
    return {
        key: _words(value) if isinstance(value, list) else value for key, value in record.items() if key != "scores"
    }


def _words(values: list[Any]) -> str:
    """Labels by their names; fills and entities with their probabilities."""
    return ", ".join(value if isinstance(value, str) else _part(**value) for value in values)


def _part(score: float, token: str = "", text: str = "", label: str = "", **place: int) -> str:
    return f"{token or f'{text}/{label}'} {score:.2f}"
