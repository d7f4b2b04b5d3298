"""Models as ONNX graphs, which torch writes and onnxruntime quantizes."""

import inspect
import logging
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from bertcli.families import family_of
from bertcli.models.packed import is_packed

# N sequences, C choices, S the longest sequence

OPSET = 18  # the one that torch's exporter writes; onnxruntime, OpenVINO and TensorRT read it
COLUMNS = ("input_ids", "attention_mask", "token_type_ids")
SIZES = {"batch": 2, "choices": 3, "sequence": 7}  # of the batch that is traced; each may differ afterwards


class _Graph(nn.Module):
    """A model as a function of its columns, which returns all its outputs."""

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model, self.columns = model, input_columns(model)

    def forward(self, *columns: Tensor) -> tuple[Tensor, ...]:
        return tuple(self.named(*columns).values())

    def named(self, *columns: Tensor) -> dict[str, Tensor]:
        """The outputs by the names that transformers gives them."""
        found = _padded(self.model)(**dict(zip(self.columns, columns, strict=True)))
        return {name: value for name, value in found.items() if isinstance(value, Tensor)}


def input_columns(model: PreTrainedModel) -> list[str]:
    """The columns that a model takes, each [N, S], or [N, C, S] for choices."""
    taken = inspect.signature(_padded(model)).parameters
    has_types = family_of(model.config.model_type).has_types(model.config)
    return [name for name in COLUMNS if name in taken and (has_types or name != "token_type_ids")]


def _padded(model: PreTrainedModel) -> Any:
    """What runs a model on padded columns: of a class of ours a method."""
    return getattr(model, "forward_padded", model.forward)


def write_graph(model: PreTrainedModel, path: Path) -> None:
    """Write a model as an ONNX graph for batches of any size and length. The model no longer runs packed."""
    if is_packed(model):
        model.set_attn_implementation("sdpa" if model._supports_sdpa else "eager")
    graph = _Graph(model.eval())
    axes = [name for name in SIZES if name != "choices" or "MultipleChoice" in type(model).__name__]
    size = sum(weight.numel() * weight.element_size() for weight in model.parameters())
    columns = tuple(torch.ones([SIZES[name] for name in axes], dtype=torch.long) for _ in graph.columns)
    with torch.no_grad():
        outputs = list(graph.named(*columns))
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it lists the operators of packages that are not here
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            graph,
            columns,
            path,
            input_names=graph.columns,
            output_names=outputs,
            dynamic_shapes=(tuple(dict(enumerate(axes)) for _ in columns),),
            opset_version=OPSET,
            dynamo=True,
            external_data=size > 1.9e9,  # one file holds less than 2 GB
            verbose=False,
        )


def quantize(graph: Path, out: Path) -> None:
    """Write a graph whose matrix products are in int8: weights by their channels, activations by their range as it runs."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    logging.getLogger().setLevel(logging.ERROR)  # it advises on the root logger
    quantize_dynamic(graph, out, weight_type=QuantType.QInt8, per_channel=True)
