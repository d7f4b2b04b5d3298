"""`bert baseline`: fit a simple method to a task, to compare a BERT with."""

import bertcli
from bertcli.cli.console import Output
from bertcli.cli.options import command
from bertcli.config.baselines import BaselineConfig


@command(BaselineConfig)
def baseline(config: BaselineConfig, output: Output) -> object:
    """Fit a simple method to a task or your own labelled data, as a run to compare a BERT with.

    Examples:
        bert baseline glue/sst2
        bert baseline glue/sst2 --method majority
        bert baseline reviews.csv --text review --label stars
        bert evaluate glue/sst2 --model runs/glue-sst2 --model runs/glue-sst2-bag-of-words
        bert report runs/glue-sst2 runs/glue-sst2-bag-of-words
    """
    result = bertcli.baseline(config)
    output.scores(result)
    return result
