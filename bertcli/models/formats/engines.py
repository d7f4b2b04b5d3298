"""Engines that run an ONNX graph in the place of a model: ONNX Runtime and OpenVINO."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import PretrainedConfig

Columns = dict[str, NDArray[np.int64]]


@dataclass(frozen=True)
class Graph:
    """A graph that an engine has loaded."""

    inputs: dict[str, int]  # the number of axes of each column
    outputs: list[str]
    run: Callable[[Columns], list[NDArray[np.float32]]]


def load_onnxruntime(path: Path, dtype: str = "float32") -> Graph:
    """A graph run by ONNX Runtime, in the precision that it was written in."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    outputs = [node.name for node in session.get_outputs()]
    inputs = {node.name: len(node.shape) for node in session.get_inputs()}
    return Graph(inputs, outputs, lambda columns: session.run(outputs, columns))


def load_openvino(path: Path, dtype: str = "float32") -> Graph:
    """A graph run by OpenVINO, in float32 or bfloat16."""
    from openvino import Core

    settings = {"INFERENCE_PRECISION_HINT": {"float32": "f32", "bfloat16": "bf16"}[dtype], "NUM_STREAMS": "1"}
    settings |= {"INFERENCE_NUM_THREADS": str(torch.get_num_threads())}
    compiled = Core().compile_model(path, "CPU", settings)
    request = compiled.create_infer_request()
    inputs = {node.any_name: len(node.partial_shape) for node in compiled.inputs}
    outputs = [node.any_name for node in compiled.outputs]
    return Graph(inputs, outputs, lambda columns: [*request.infer(columns).values()])


class GraphModel(nn.Module):
    """A graph in the place of the model that it was made from: padded columns in, the same outputs by name."""

    def __init__(self, graph: Graph, config: PretrainedConfig) -> None:
        super().__init__()
        self.graph, self.config = graph, copy.deepcopy(config)
        self.config._attn_implementation = "eager"  # not packed
        self.nothing = nn.Parameter(torch.zeros(()), requires_grad=False)  # says that it is of float32 and on the CPU

    @property
    def base_model(self) -> "GraphModel":
        """The encoder, whose states a model without a head returns."""
        return self

    def forward(self, **columns: Tensor) -> Any:
        """The outputs of the graph; the first of several choices is the only one where there is no axis of them."""
        given = {name: self._shaped(columns[name].numpy(), axes) for name, axes in self.graph.inputs.items()}
        return _Outputs(zip(self.graph.outputs, map(torch.from_numpy, self.graph.run(given)), strict=True))

    @staticmethod
    def _shaped(rows: NDArray[Any], axes: int) -> NDArray[np.int64]:
        """Each sequence as an example of one choice, where the graph has an axis of choices."""
        return (rows[:, None] if rows.ndim < axes else rows).astype(np.int64)


class _Outputs(dict[str, Tensor]):
    """Outputs by name, also as attributes, as transformers returns them."""

    __getattr__ = dict.__getitem__
