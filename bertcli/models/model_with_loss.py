"""A model with its loss, which training updates, and its outputs over all rows of its inputs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import PreTrainedModel

from bertcli.data.packing.batches import Packable, PackedBatch, evaluation_batches
from bertcli.kernels import prepack
from bertcli.models.encoder import in_precision
from bertcli.models.packed import is_packed, prepare_layers
from bertcli.models.working_copy import cast_weights

PROJECTION_DEVIATION = 0.02  # standard deviation of new weights
GENERATOR = "generator"  # the folder of a generator in that of its model

Outputs = dict[str, Tensor]
Head = Callable[[PreTrainedModel, PackedBatch], Outputs]
Losses = Callable[[Outputs, PackedBatch], Outputs]


def generator_beside(source: str) -> str | None:
    """The folder of the generator that was trained with a model, if there is one in the model's folder."""
    folder = Path(source, GENERATOR)
    return str(folder) if (folder / "config.json").exists() else None


class ModelWithLoss(nn.Module):
    """A packed batch in, summed losses out, or, without losses, outputs. This is what Accelerate wraps."""

    def __init__(self, model: PreTrainedModel, head: Head, losses: Losses = lambda outputs, batch: outputs) -> None:
        super().__init__()
        self.model, self.head, self.losses = model, head, losses
        prepare_layers(model)

    def forward(self, batch: PackedBatch) -> Outputs:
        """The summed losses of a batch, by name; `batch.counts` says what to divide each by."""
        return self.losses(self.head(self.read, batch), batch)

    @torch.no_grad()
    def outputs(self, batch: PackedBatch) -> Outputs:
        """The outputs of the head, without a loss."""
        return self.head(self.read, batch)

    def to_predict(self, device: torch.device, dtype: str, reorders: bool = True) -> Self:
        """Move it to a device to predict in a precision; on a CPU weights are cast once, and if packed put in the order of products."""
        self.to(device)
        if device.type == "cpu" and dtype == "bfloat16":
            cast_weights(self, torch.bfloat16)
        if device.type == "cpu" and reorders and is_packed(self.model):
            prepack(self.model)
        return self

    @property
    def read(self) -> Any:
        """What the head reads: the model."""
        return self.model

    @property
    def models(self) -> dict[str, PreTrainedModel]:
        """The models that are trained, by the folder in which each is saved within that of the first."""
        return {"": self.model}

    @property
    def filler(self) -> PreTrainedModel:
        """The model that fills masks."""
        return self.model


class Detector(ModelWithLoss):
    """A model with the generator that is trained beside it (objectives/replaced_tokens.py); the head reads both."""

    def __init__(self, model: PreTrainedModel, generator: PreTrainedModel, head: Any, losses: Losses) -> None:
        super().__init__(model, head, losses)
        self.generator = generator
        prepare_layers(generator)

    @property
    def read(self) -> "Detector":
        """What the head reads: the model and its generator."""
        return self

    @property
    def models(self) -> dict[str, PreTrainedModel]:
        """The model and its generator."""
        return {"": self.model, GENERATOR: self.generator}

    @property
    def filler(self) -> PreTrainedModel:
        """The generator."""
        return self.generator


@dataclass(frozen=True)
class Distance:
    """How far a student is from its teacher: the summed parts of the loss, by name, of a student and a batch."""

    parts: Callable[["Student", PackedBatch], Outputs]
    projected: Sequence[str]  # the states that are compared, which a teacher of another width needs in its own
    width: int  # of the teacher
    seed: int  # of the projections

    def __deepcopy__(self, memo: object) -> "Distance":
        """The same: copies of a student share the teacher."""
        return self


class Student(ModelWithLoss):
    """A model that is trained by its distance to a teacher; its head and losses are what it is evaluated by."""

    def __init__(self, model: PreTrainedModel, head: Head, losses: Losses, distance: Distance) -> None:
        super().__init__(model, head, losses)
        self.distance, own = distance, int(model.config.hidden_size)
        generator = torch.Generator().manual_seed(distance.seed)
        self.projections = nn.ModuleDict()
        for name in distance.projected if own != distance.width else ():
            linear = nn.Linear(own, distance.width, bias=False)
            nn.init.normal_(linear.weight, std=PROJECTION_DEVIATION, generator=generator)
            self.projections[name] = linear

    def forward(self, batch: PackedBatch) -> Outputs:
        """The summed parts of the distance to the teacher, by name; `batch.counts` says what to divide each by."""
        return self.distance.parts(self, batch)

    def project(self, name: str, states: Tensor) -> Tensor:
        """States in the width of the teacher, [P, H]."""
        if name not in self.projections:
            return states
        linear = self.projections[name]
        return cast(Tensor, linear(states.to(next(linear.parameters()).dtype)))


def run_model(
    objective: ModelWithLoss,
    examples: Packable,
    device: torch.device,
    micro_batch_tokens: int,
    dtype: str,
    advance: Callable[[float], object] = lambda tokens: None,
) -> dict[str, list[NDArray[np.float32]]]:
    """Run the head over every row; return each output by name, an array per row, in the order of the rows.

    `advance` is called with the number of tokens after each batch: the longest rows come first.
    """
    if objective.training:  # setting it on each module takes a tenth of the time of a short text
        objective.eval()
    found: dict[str, list[tuple[int, NDArray[np.float32]]]] = {}
    with torch.inference_mode(), in_precision(objective, dtype):
        for batch in evaluation_batches(examples, micro_batch_tokens):
            for name, values in objective.outputs(batch.to(device)).items():
                found.setdefault(name, []).extend(zip(batch.rows.tolist(), values.float().cpu().numpy(), strict=True))
            advance(len(batch.input_ids))
    return {name: [array for _, array in sorted(pairs, key=itemgetter(0))] for name, pairs in found.items()}
