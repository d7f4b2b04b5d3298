"""`bert finetune`: fine-tune a pre-trained BERT on a task or on your own labelled data."""

import bertcli
from bertcli.cli.console import Output
from bertcli.cli.options import command
from bertcli.config.training import FinetuneConfig


def _resolved(config: FinetuneConfig) -> FinetuneConfig:
    from bertcli.lifecycle.finetune import with_family

    return with_family(config)


@command(FinetuneConfig, _resolved)
def finetune(config: FinetuneConfig, output: Output) -> object:
    """Fine-tune a pre-trained BERT on a task or on your own labelled data.

    Examples:
        bert finetune glue/mnli
        bert finetune squad --from runs/pretrain-base --data-dir data
        bert finetune reviews.csv --text review --label stars
        bert finetune train.csv dev.csv
        bert finetune glue/rte --from runs/glue-mnli --seeds 5
    """
    result = bertcli.finetune(config)
    output.scores(result)
    return result
