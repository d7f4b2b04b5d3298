"""`bert demo`: every step from text to predictions, on the text that ships with the package, in a few minutes."""

import bertcli
from bertcli.cli.console import Output
from bertcli.cli.options import command
from bertcli.config.use import DemoConfig

COLUMNS = ("what", "on", "guess", "guessing", "random weights", "pre-trained", "shipped model")


@command(DemoConfig)
def demo(config: DemoConfig, output: Output) -> object:
    """Run every step from text to predictions, on the text that ships with the package, in a few minutes.

    Examples:
        bert demo
        bert demo --size mini --steps 3000 --out longer
    """
    result = bertcli.demo(config)
    if result.measures:
        output.table(["question", "label", "probability"], [row.values() for row in result.predictions])
        columns = [name for name in COLUMNS if any(name in row for row in result.measures)]
        shown = [name if name in COLUMNS[:3] else f"{name}, %" for name in columns]
        title = f"Results after {result.seconds / 60:.1f} minutes (all files are in {result.out}/)"
        output.table(shown, ([row.get(name) for name in columns] for row in result.measures), title)
    return result
