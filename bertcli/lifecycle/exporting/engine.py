"""A fine-tuned model run by another engine: its graph, made once, in the place of its weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch

from bertcli import say
from bertcli.config.use import ONNX, ONNX_INT8, OPENVINO
from bertcli.errors import UserError, quoted
from bertcli.lifecycle.exporting.writing import Exported, write_export
from bertcli.lifecycle.scoring.task_model import TaskModel
from bertcli.lifecycle.workspace import export_folder
from bertcli.models.formats.engines import Graph, GraphModel, load_onnxruntime, load_openvino


class _Engine(NamedTuple):
    load: Callable[[Path, str], Graph]
    precisions: tuple[str, ...]
    written: str = "float32"  # the precision of the graph's file


ENGINES = {ONNX: _Engine(load_onnxruntime, ("float32",)), OPENVINO: _Engine(load_openvino, ("float32", "bfloat16"))}
ENGINES |= {ONNX_INT8: _Engine(load_onnxruntime, ("float32",), "int8")}


def run_by(engine: str, loaded: TaskModel, source: str, precision: str) -> TaskModel:
    """The same model run by an engine on this machine's CPU: in torch's precision where the engine has it, else in float32.

    Raises UserError if the engine does not have the precision, or if the graph cannot be made or is older than the weights.
    """
    chosen = ENGINES[engine]
    if precision not in ("auto", *chosen.precisions):
        raise UserError(f"--engine {engine} does not compute in {precision}.", "Leave --precision out.")
    dtype = loaded.dtype if loaded.dtype in chosen.precisions else chosen.precisions[0]
    graph = chosen.load(_graph_of(source, chosen.written), dtype)
    model = loaded.kind.with_loss(cast(Any, GraphModel(graph, loaded.model.model.config)))
    return replace(loaded, model=model, device=torch.device("cpu"), dtype="float32")


def _graph_of(source: str, precision: str) -> Path:
    """The file of a model's graph, written where `bert export` writes it unless it is there."""
    folder = export_folder(source, source, "onnx", precision)
    graph = folder / "model.onnx"
    if not graph.exists():
        say(f"making {folder}, once (bert export)")
        write_export(Exported(source, str(folder), "onnx", precision), None)
    written = [path.stat().st_mtime for path in Path(source).glob("*.safetensors")]
    if written and max(written) > graph.stat().st_mtime:
        raise UserError(f"`{graph}` is older than the weights of `{source}`.", f"Remove it: rm -r {quoted(folder)}")
    return graph
