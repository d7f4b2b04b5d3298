"""`bert convert`: convert Google's TensorFlow checkpoints to the format of transformers, and back."""

import bertcli
from bertcli.cli.console import Output
from bertcli.cli.options import command
from bertcli.config.use import ConvertConfig


@command(ConvertConfig)
def convert(config: ConvertConfig, output: Output) -> object:
    """Convert Google's TensorFlow checkpoints to the format of transformers, and back.

    Examples:
        bert convert uncased_L-12_H-768_A-12.zip --out bert-base-uncased
        bert convert runs/pretrain-base --out for-tensorflow
    """
    return bertcli.convert(config)
