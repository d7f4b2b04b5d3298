"""`bert evaluate`: score models, or a file of predictions, on a task."""

import bertcli
from bertcli.cli.console import Output
from bertcli.cli.options import command
from bertcli.config.use import EvaluateConfig


@command(EvaluateConfig)
def evaluate(config: EvaluateConfig, output: Output) -> object:
    """Score models, or a file of predictions, on a task.

    Examples:
        bert evaluate glue/mnli
        bert evaluate glue/mnli --model runs/glue-mnli --model runs/glue-mnli-2
        bert evaluate glue/sst2 --mistakes 20
        bert evaluate squad --data-dir data --predictions predictions.json
        bert evaluate squad_v2 --data-dir data --predictions predictions.json --na-probs null_odds.json
        bert evaluate reviews.csv --model runs/reviews
        bert evaluate folder --split test
    """
    from bertcli.reports.evaluation import evaluation_tables

    result = bertcli.evaluate(config)
    for table in evaluation_tables(result) if result.metrics else ():
        output.table(table.columns, table.rows, table.title)
    return result
