"""`bert pretrain`: train a BERT on masked words and next sentences."""

from bertcli.cli.console import Output
from bertcli.cli.main import app
from bertcli.cli.options import command
from bertcli.config.training import PretrainConfig

EXAMPLES = """
bert pretrain --size base
bert pretrain --size tiny --steps 300 --batch-size 64
bert pretrain --resume
"""


@command(app, PretrainConfig, "pretrain", EXAMPLES)
def pretrain_command(config: PretrainConfig, output: Output) -> None:
    """Train a BERT on masked words and next sentences."""
    from bertcli.lifecycle.pretrain import pretrain

    result = pretrain(config)
    if output.json:
        output.emit(result)
    elif result.metrics:
        output.table(["measure", "value"], result.metrics.items(), title=result.run)
