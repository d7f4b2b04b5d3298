"""Write a model for other programs: ONNX graphs or safetensors, with tokenizer, labels and an example."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertcli import say
from bertcli.config.use import EXPORTS, ExportConfig
from bertcli.errors import UserError, check_extra, check_vacant
from bertcli.lifecycle.baselining.description import method_of
from bertcli.lifecycle.workspace import export_folder, latest_finished_run, resolve_model

if TYPE_CHECKING:
    from bertcli.lifecycle.exporting.writing import Exported


def export(run: ExportConfig | str | None = None, **options: Any) -> Exported:
    """Write the model of a run, by default the latest, for other programs.

    Raises UserError if there is no such model, if the format does not have the precision, or if the outputs differ by
    more than 1e-4 (RunError). An int8 graph is scored on the dev set of its run, where that is there.
    """
    config = ExportConfig.build(run, options)
    if config.precision not in EXPORTS[config.format]:
        what = f"{config.format} is not written in {config.precision}."
        raise UserError(what, f"Give --precision {' or '.join(EXPORTS[config.format])}, or another --format.")
    if config.format == "onnx":
        check_extra("onnx", "onnx", "onnxruntime", "onnxscript", use="--format onnx")
    model = resolve_model(config.run) if config.run else str(latest_finished_run().model)
    if method := method_of(model):
        raise UserError(f"`{model}` is a baseline ({method}), not a BERT.", "Give another run: bert export RUN")
    out = Path(config.out) if config.out else export_folder(model, config.run, config.format, config.precision)
    check_vacant(out)

    from bertcli.lifecycle.exporting.writing import Exported, write_export

    plan = Exported(model, str(out), config.format, config.precision)
    if config.dry_run:
        say(f"would write {out}: {model} as {config.format} in {config.precision}")
        return plan
    return write_export(plan, config.data_dir)
