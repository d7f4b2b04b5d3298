"""`bert reproduce`: run one of the paper's experiments, beside the paper's numbers."""

import bertcli
from bertcli.cli.console import Output
from bertcli.cli.options import command
from bertcli.config.reproduce import ReproduceConfig


@command(ReproduceConfig)
def reproduce(config: ReproduceConfig, output: Output) -> object:
    """Run one of the paper's experiments (Tables 1 to 8, Figure 5), at any size, beside the paper's numbers.

    `family` pre-trains BERT's family at equal compute: the same text, vocabulary size and floating-point operations.

    The plan is shown first, with the estimated time; --dry-run stops there. The same command continues what was
    interrupted, and machines that share the folder share the work.

    Examples:
        bert reproduce table-5 --dry-run
        bert reproduce table-5 --size tiny --steps 2000 --seeds 3 --tasks glue/mrpc glue/sst2
        bert reproduce table-7 --from minilm --seeds 5
        bert reproduce figure-5 --tasks glue/rte --text corpus/*.txt
        bert reproduce family --size tiny --flops 1e13 --seeds 5
        bert reproduce table-6 --recipe reproduce/table-6
    """
    from bertcli.lifecycle.reproducing.page import direction_table, score_table

    result = bertcli.reproduce(config)
    if result.cells:
        scores, directions = score_table(result), direction_table(result)
        if directions.rows:
            output.table(directions.columns, directions.rows, directions.title)
        below = [*result.skipped, *result.notes, result.sentence, f"report: {result.report}"]
        output.table(scores.columns, scores.rows, scores.title, below)
    return result
