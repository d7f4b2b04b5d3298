"""`bert submit`: write the zip of a leaderboard from the runs of its tasks."""

from bertcli.cli.console import Output
from bertcli.cli.main import app
from bertcli.cli.options import command
from bertcli.config.use import SubmitConfig

EXAMPLES = """
bert submit glue
bert submit glue runs/glue-mnli runs/glue-rte --data-dir data --out submission.zip
"""


@command(app, SubmitConfig, "submit", EXAMPLES)
def submit_command(config: SubmitConfig, output: Output) -> None:
    """Write the zip of the GLUE leaderboard, checked, from a run of each task."""
    from bertcli.lifecycle.submit import submit

    result = submit(config)
    if output.json:
        output.emit(result)
    else:
        rows = [[row["file"], row["rows"], row["run"] or f"filled with {row['filled_with']}"] for row in result.files]
        output.table(["file", "rows", "by"], rows, title=result.output)
