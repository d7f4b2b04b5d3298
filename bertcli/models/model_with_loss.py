"""A model with its loss, which training updates, and its outputs over all rows of its inputs."""

from collections.abc import Callable
from operator import itemgetter

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import PreTrainedModel

from bertcli.data.packing.batches import Packable, PackedBatch, evaluation_batches
from bertcli.models.encoder import in_precision
from bertcli.models.packed import prepare_layers

Outputs = dict[str, Tensor]
Head = Callable[[PreTrainedModel, PackedBatch], Outputs]
Losses = Callable[[Outputs, PackedBatch], Outputs]


class ModelWithLoss(nn.Module):
    """A packed batch in, summed losses out, or, without losses, outputs. This is what Accelerate wraps."""

    def __init__(self, model: PreTrainedModel, head: Head, losses: Losses = lambda outputs, batch: outputs) -> None:
        super().__init__()
        self.model, self.head, self.losses = model, head, losses
        prepare_layers(model)

    def forward(self, batch: PackedBatch) -> Outputs:
        """The summed losses of a batch, by name; `batch.counts` says what to divide each by."""
        return self.losses(self.head(self.model, batch), batch)

    @torch.no_grad()
    def outputs(self, batch: PackedBatch) -> Outputs:
        """The outputs of the head, without a loss."""
        return self.head(self.model, batch)


def run_model(
    objective: ModelWithLoss, examples: Packable, device: torch.device, micro_batch_tokens: int, dtype: str
) -> dict[str, list[NDArray[np.float32]]]:
    """Run the head over every row; return each output by name, an array per row, in the order of the rows."""
    objective.eval()
    found: dict[str, list[tuple[int, NDArray[np.float32]]]] = {}
    with torch.inference_mode(), in_precision(objective, dtype):
        for batch in evaluation_batches(examples, micro_batch_tokens):
            for name, values in objective.outputs(batch.to(device)).items():
                arrays = values.float().cpu().numpy()
                found.setdefault(name, []).extend(zip(batch.rows.tolist(), arrays, strict=True))
    return {name: [array for _, array in sorted(pairs, key=itemgetter(0))] for name, pairs in found.items()}
