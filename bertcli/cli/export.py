"""`bert export`: write a model for other programs."""

import bertcli
from bertcli.cli.console import Output
from bertcli.cli.options import command
from bertcli.config.use import ExportConfig


@command(ExportConfig)
def export(config: ExportConfig, output: Output) -> object:
    """Write a model for other programs, as an ONNX graph or as safetensors, with an example that runs.

    Examples:
        bert export runs/glue-sst2
        bert export runs/glue-sst2 --precision int8
        bert export runs/glue-sst2 --format safetensors --precision bfloat16 --out sst2-bfloat16
        python runs/glue-sst2/onnx-float32/example.py
    """
    result = bertcli.export(config)
    if result.metrics:
        rows = [[name, result.metrics_before[name], value] for name, value in result.metrics.items()]
        output.table([f"{result.split}, {config.precision}", "before", "after"], rows)
    return result
