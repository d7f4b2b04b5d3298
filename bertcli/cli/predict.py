"""`bert predict`: use a model on a text, a pair, a question or a file."""

from bertcli.cli.console import Output
from bertcli.cli.main import app
from bertcli.cli.options import command
from bertcli.config import PredictConfig

EXAMPLES = """
bert predict --text "a gripping, beautiful film"
bert predict --text "Paris is the [MASK] of France."
bert predict --question "Who wrote it?" --context "It was written by Ada."
bert predict --file reviews.txt --output predictions.csv
"""


@command(app, PredictConfig, "predict", EXAMPLES)
def predict_command(config: PredictConfig, output: Output) -> None:
    """Use a model on a text, a pair, a question or a file."""
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
        keys = [key for key in result.records[0] if key not in ("scores", "fills")]
        rows = [[record.get(key) for key in keys] or [_tokens(record)] for record in result.records]
        output.table(keys or ["fills"], rows)


def _show_one(record: dict[str, object], output: Output) -> None:
    scores, fills = record.get("scores"), record.get("fills")
    if isinstance(scores, dict):
        best = sorted(scores.items(), key=lambda item: -item[1])[:5]
        output.table(["label", "probability"], best)
    elif isinstance(fills, list):
        output.table(["fill", "probability"], [[fill["token"], fill["score"]] for fill in fills])
    else:
        output.table(list(record), [list(record.values())])


def _tokens(record: dict[str, object]) -> str:
    fills = record.get("fills")
    return " ".join(fill["token"] for fill in fills) if isinstance(fills, list) else ""
