"""`bert serve`: answer requests over HTTP."""

import bertcli
from bertcli.cli.console import Output
from bertcli.cli.options import command
from bertcli.config.use import ServeConfig


@command(ServeConfig)
def serve(config: ServeConfig, output: Output) -> object:
    """Answer requests over HTTP, with the JSON of `bert predict`, and a page to type into.

    Examples:
        bert serve
        bert serve runs/glue-sst2 runs/squad --port 8080
        curl -d '{"text": "a gripping, beautiful film"}' localhost:8000/predict
        curl -d '{"question": "Who wrote it?", "context": "Ada wrote it."}' localhost:8080/predict/squad
        curl localhost:8000/metrics
    """
    return bertcli.serve(config)
