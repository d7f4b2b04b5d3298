"""`bert demo`: the whole life of a model on the text that ships, in a few minutes."""

from bertcli.cli.console import Output
from bertcli.cli.main import app
from bertcli.cli.options import command
from bertcli.config.use import DemoConfig

EXAMPLES = """
bert demo
bert demo --size mini --steps 3000 --out longer
"""
COLUMNS = ("what", "on", "guess", "guessing", "random weights", "pre-trained", "shipped model")


@command(app, DemoConfig, "demo", EXAMPLES)
def demo_command(config: DemoConfig, output: Output) -> None:
    """Run the whole life of a model on the text that ships, in a few minutes."""
    from bertcli.lifecycle.demo import demo

    result = demo(config)
    if output.json:
        output.emit(result)
    elif result.measures:
        output.table(["question", "label", "probability"], [list(row.values()) for row in result.predictions])
        columns = [name for name in COLUMNS if any(name in row for row in result.measures)]
        rows = [[row.get(name) for name in columns] for row in result.measures]
        shown = [f"{name}, %" if name not in COLUMNS[:3] else name for name in columns]
        output.table(
            shown, rows, title=f"What it learnt in {result.seconds / 60:.1f} minutes (everything is in {result.out}/)"
        )
