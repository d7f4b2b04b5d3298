"""`bert make-pretraining-data`: turn text into masked-LM and next-sentence instances."""

from bertcli.cli.console import Output
from bertcli.cli.main import app
from bertcli.cli.options import command
from bertcli.config.data import MakePretrainingDataConfig

EXAMPLES = """
bert make-pretraining-data corpus/*.txt
bert make-pretraining-data corpus/ --max-seq-length 512 --max-predictions-per-seq 76 --whole-word-mask
"""


@command(app, MakePretrainingDataConfig, "make-pretraining-data", EXAMPLES)
def make_pretraining_data_command(config: MakePretrainingDataConfig, output: Output) -> None:
    """Turn text into masked-LM and next-sentence instances.

    One sentence or paragraph a line; a blank line or the end of a file ends a document.
    """
    from bertcli.lifecycle.make_pretraining_data import make_pretraining_data

    result = make_pretraining_data(config)
    if output.json:
        output.emit(result)
