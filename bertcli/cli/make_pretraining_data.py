"""`bert make-pretraining-data`: turn text into masked-LM and next-sentence instances."""

import bertcli
from bertcli.cli.console import Output
from bertcli.cli.options import command
from bertcli.config.data import MakePretrainingDataConfig


def _resolved(config: MakePretrainingDataConfig) -> MakePretrainingDataConfig:
    from bertcli.lifecycle.make_pretraining_data import with_family

    return with_family(config)[0]


@command(MakePretrainingDataConfig, _resolved)
def make_pretraining_data(config: MakePretrainingDataConfig, output: Output) -> object:
    """Turn text into masked-LM and next-sentence instances.

    One sentence or paragraph per line; a blank line or the end of a file ends a document.

    Examples:
        bert make-pretraining-data corpus/*.txt
        bert make-pretraining-data corpus/ --max-seq-length 512 --max-predictions-per-seq 76 --whole-word-mask
    """
    return bertcli.make_pretraining_data(config)
