"""`bert distill`: train a small student on the answers of a large teacher."""

import bertcli
from bertcli.cli.console import Output
from bertcli.cli.options import command
from bertcli.config.distillation import DistillConfig


@command(DistillConfig)
def distill(config: DistillConfig, output: Output) -> object:
    """Train a small student on the answers of a large teacher, at pre-training or, with TASK, at a task.

    Examples:
        bert distill --teacher runs/pretrain-base
        bert distill glue/sst2 --teacher runs/glue-sst2
        bert distill reviews.csv --teacher runs/reviews --layers 3 --unlabelled more.txt
        bert distill glue/sst2 --teacher runs/glue-sst2 --from bert-books
        bert distill --teacher minilm --targets hidden sentence-vectors --size mini --vocab-from-text books/*.txt
    """
    from bertcli.reports.tables import result_tables, summary_lines

    result = bertcli.distill(config)
    if result.metrics and not result.split:
        output.table(["metric", "value"], result.metrics.items(), result.run)
    elif result.metrics:
        scores, *others = result_tables(result)
        for table in others:
            output.table(table.columns, table.rows, table.title)
        output.table(scores.columns, scores.rows, scores.title, summary_lines(result))
    return result
