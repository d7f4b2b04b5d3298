"""`bert evaluate`: score models, or a file of predictions, on a task."""

from bertcli.cli.console import Output
from bertcli.cli.main import app
from bertcli.cli.options import command
from bertcli.config.use import EvaluateConfig

EXAMPLES = """
bert evaluate glue/mnli
bert evaluate glue/mnli --model runs/glue-mnli --model runs/glue-mnli-2
bert evaluate glue/sst2 --mistakes 20
bert evaluate squad --data-dir data --predictions predictions.json
bert evaluate squad_v2 --data-dir data --predictions predictions.json --na-probs null_odds.json
bert evaluate reviews.csv --model runs/reviews
bert evaluate folder --split test
"""


@command(app, EvaluateConfig, "evaluate", EXAMPLES)
def evaluate_command(config: EvaluateConfig, output: Output) -> None:
    """Score models, or a file of predictions, on a task."""
    from bertcli.lifecycle.evaluate import evaluate
    from bertcli.reports.evaluation import evaluation_tables

    result = evaluate(config)
    if output.json:
        output.emit(result)
    elif result.metrics:
        for table in evaluation_tables(result):
            output.table(
                table.columns, table.rows, title=table.title or f"{result.model} on {result.examples:,} examples"
            )
