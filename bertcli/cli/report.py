"""`bert report`: write the report of a run, or of several beside each other."""

import typer

import bertcli
from bertcli.cli.console import Output
from bertcli.cli.options import command
from bertcli.config.use import ReportConfig


@command(ReportConfig)
def report(config: ReportConfig, output: Output) -> object:
    """Write the report of a run, or a comparison of several, as a page; print it as Markdown.

    Examples:
        bert report
        bert report runs/glue-sst2
        bert report runs/glue-sst2 runs/glue-sst2-2 --out comparison.html
    """
    result = bertcli.report(config)
    if not output.json:
        typer.echo(result.markdown)
    return result
