"""`bert convert`: Google's TensorFlow checkpoints to transformers' format, and back."""

from bertcli.cli.console import Output
from bertcli.cli.main import app
from bertcli.cli.options import command
from bertcli.config.use import ConvertConfig

EXAMPLES = """
bert convert uncased_L-12_H-768_A-12.zip --out bert-base-uncased
bert convert runs/pretrain-base --out for-tensorflow
"""


@command(app, ConvertConfig, "convert", EXAMPLES)
def convert_command(config: ConvertConfig, output: Output) -> None:
    """Turn Google's TensorFlow checkpoints into transformers' format, and back."""
    from bertcli.lifecycle.convert import convert

    result = convert(config)
    if output.json:
        output.emit(result)
