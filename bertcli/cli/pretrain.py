"""`bert pretrain`: pre-train a BERT by masked-LM and next-sentence prediction, or another objective."""

import bertcli
from bertcli.cli.console import Output
from bertcli.cli.options import command
from bertcli.config.training import PretrainConfig


def _resolved(config: PretrainConfig) -> PretrainConfig:
    from bertcli.lifecycle.pretraining.family import with_family

    return with_family(config)


@command(PretrainConfig, _resolved)
def pretrain(config: PretrainConfig, output: Output) -> object:
    """Pre-train a BERT by masked-LM and next-sentence prediction, or another objective.

    With only minutes on a laptop, use --recipe pretrain/laptop: a tiny model learns more in that time than a larger one,
    because it sees more text. Of BERT's family, DeBERTa learns most in so few minutes:
    make the vocabulary and the data with --family deberta, and pre-train on them.

    Examples:
        bert pretrain --size base
        bert pretrain --recipe pretrain/laptop
        bert pretrain --size tiny --steps 300 --batch-size 64
        bert pretrain --resume
    """
    result = bertcli.pretrain(config)
    if result.metrics:
        output.table(["metric", "value"], result.metrics.items(), result.run)
    return result
