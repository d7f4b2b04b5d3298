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
    result = bertcli.distill(config)
    if result.metrics and not result.split:
        output.table(["metric", "value"], result.metrics.items(), result.run)
    else:
        output.scores(result)
    return result
