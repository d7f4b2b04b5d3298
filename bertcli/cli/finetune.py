"""`bert finetune`: fine-tune a pre-trained BERT on a task."""

import bertcli
from bertcli.cli.console import Output
from bertcli.cli.options import command
from bertcli.config.training import FinetuneConfig


@command(FinetuneConfig)
def finetune(config: FinetuneConfig, output: Output) -> object:
    """Fine-tune a pre-trained BERT on a task or on your own labelled data.

    Examples:
        bert finetune glue/mnli
        bert finetune squad --from runs/pretrain-base --data-dir data
        bert finetune reviews.csv --text review --label stars
        bert finetune train.csv dev.csv
        bert finetune glue/rte --from runs/glue-mnli --seeds 5
    """
    from bertcli.reports.tables import result_tables, summary_lines

    result = bertcli.finetune(config)
    if result.metrics:
        scores, *others = result_tables(result)
        for table in others:
            output.table(table.columns, table.rows, table.title)
        output.table(scores.columns, scores.rows, scores.title, summary_lines(result))
    return result
