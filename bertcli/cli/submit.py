"""`bert submit`: write the zip file of a leaderboard from fine-tuned runs."""

import bertcli
from bertcli.cli.console import Output
from bertcli.cli.options import command
from bertcli.config.use import SubmitConfig


@command(SubmitConfig)
def submit(config: SubmitConfig, output: Output) -> object:
    """Write and check the zip file of the GLUE leaderboard, from one run per task.

    Examples:
        bert submit glue
        bert submit glue runs/glue-mnli runs/glue-rte --data-dir data --out submission.zip
    """
    result = bertcli.submit(config)
    rows = [[row["file"], row["rows"], row["run"] or f"filled with {row['filled_with']}"] for row in result.files]
    output.table(["file", "rows", "run"], rows, result.output)
    return result
