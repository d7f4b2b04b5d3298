"""`bert predict`: use a model on a text, a pair, choices, a question or a file."""

from typing import Any

from bertcli.cli.console import Output
from bertcli.cli.main import app
from bertcli.cli.options import command
from bertcli.config import PredictConfig

EXAMPLES = """
bert predict --text "a gripping, beautiful film"
bert predict --text "Paris is the [MASK] of France."
bert predict --text "She closed the door and" --choice "left." --choice "ate the moon."
bert predict --question "Who wrote it?" --context "It was written by Ada."
bert predict --file reviews.txt --output predictions.csv
bert predict --file reviews.txt --features states.parquet --layers concat-last-four
"""


@command(app, PredictConfig, "predict", EXAMPLES)
def predict_command(config: PredictConfig, output: Output) -> None:
    """Use a model on a text, a pair, choices, a question or a file."""
    from bertcli.prediction import predict

    result = predict(config)
    if result.output:
        if output.json:
            output.emit({"model": result.model, "output": result.output, "predictions": result.count})
        return
    if output.json:
        for record in result.records:
            output.emit(record)
    elif len(result.records) == 1:
        _show_one(result.records[0], output)
    elif result.records:
        rows = [_plain(record) for record in result.records]
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
    return " ".join(
        value if isinstance(value, str) else value.get("token") or f"{value['text']}/{value['label']}"
        for value in values
    )
