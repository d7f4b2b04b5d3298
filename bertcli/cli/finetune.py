"""`bert finetune`: train a pre-trained BERT on one task."""

from bertcli.cli.console import Output
from bertcli.cli.main import app
from bertcli.cli.options import command
from bertcli.config.training import FinetuneConfig

EXAMPLES = """
bert finetune glue/mnli
bert finetune squad --from runs/pretrain-base --data-dir data
bert finetune reviews.csv --text review --label stars
bert finetune train.csv dev.csv
bert finetune glue/rte --from runs/glue-mnli --seeds 5
"""


@command(app, FinetuneConfig, "finetune", EXAMPLES)
def finetune_command(config: FinetuneConfig, output: Output) -> None:
    """Train a pre-trained BERT on one task."""
    from bertcli.lifecycle.finetune import finetune
    from bertcli.reports.tables import result_tables

    result = finetune(config)
    if output.json:
        output.emit(result)
    elif result.metrics:
        for table in result_tables(result):
            output.table(table.columns, table.rows, title=table.title or result.run)
