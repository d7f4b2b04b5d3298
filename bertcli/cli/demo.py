"""`bert demo`: run every step from text to predictions, on the text that ships with the package, in a few minutes."""

import bertcli
from bertcli.cli.console import Output
from bertcli.cli.options import command
from bertcli.config.use import DemoConfig

NOTE = "Pre-training on seven novels does not pay here: the BERT that minilm was made from read 3.3 billion words."


@command(DemoConfig)
def demo(config: DemoConfig, output: Output) -> object:
    """Run every step from text to predictions, on the text that ships with the package, in a few minutes.

    Examples:
        bert demo
        bert demo --size mini --steps 3000 --out longer
    """
    result = bertcli.demo(config)
    if result.scores:
        rows = ([name, round(each["accuracy"], 1), each["seconds"]] for name, each in result.scores.items())
        output.table(["model", "3,080 test questions right, %", "seconds"], rows)
        best = list(result.scores)[-1]
        answers = [[row["text"], row["label"], f"{row['score']:.2f}"] for row in result.predictions]
        pays = result.scores["the model just pre-trained"]["accuracy"] > result.scores["bag of words"]["accuracy"]
        below = [] if pays else [NOTE]
        below += [f"report: {result.report}", f"all files: {result.out}/   {result.seconds / 60:.1f} minutes"]
        output.table(["question", f"answer of {best}", "probability"], answers, "", below)
    return result
