"""A model with its loss, which is what a training updates."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from bertcli.data.packing.batches import PackedBatch
from bertcli.models.packed import prepare_layers

Outputs = dict[str, Tensor]
Head = Callable[[PreTrainedModel, PackedBatch], Outputs]
Losses = Callable[[Outputs, PackedBatch], Outputs]


class ModelWithLoss(nn.Module):
    """A packed batch in, summed losses out. This is what Accelerate wraps."""

    def __init__(self, model: PreTrainedModel, head: Head, losses: Losses) -> None:
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
