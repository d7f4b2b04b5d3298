"""`bert evaluate`: score a model, or a file of predictions, on a task."""

from bertcli.cli.console import Output
from bertcli.cli.main import app
from bertcli.cli.options import command
from bertcli.config import EvaluateConfig

EXAMPLES = """
bert evaluate glue/mnli
bert evaluate squad --data-dir data --predictions predictions.json
bert evaluate squad_v2 --data-dir data --predictions predictions.json --na-probs null_odds.json
bert evaluate reviews.csv --model runs/reviews
bert evaluate folder --split test
"""


@command(app, EvaluateConfig, "evaluate", EXAMPLES)
def evaluate_command(config: EvaluateConfig, output: Output) -> None:
    """Score a model, or a file of predictions, on a task."""
    from bertcli.evaluation import evaluate
    from bertcli.reports.tables import SCORE_COLUMNS, score_rows

    result = evaluate(config)
    if output.json:
        output.emit(result.to_json())
    else:
        title = f"{result.model} on {result.examples:,} examples"
        output.table(SCORE_COLUMNS, score_rows(result.task, result.split, result.metrics), title=title)
