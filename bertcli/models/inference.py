"""A model run over all rows of its inputs, longest first, and its outputs in the order of the inputs."""

from operator import itemgetter

import numpy as np
import torch
from numpy.typing import NDArray

from bertcli.data.packing.batches import Packable, evaluation_batches
from bertcli.models.encoder import in_precision
from bertcli.models.model_with_loss import ModelWithLoss

RowOutputs = dict[str, list[NDArray[np.float32]]]


def run_model(
    objective: ModelWithLoss, examples: Packable, device: torch.device, micro_batch_tokens: int, dtype: str
) -> RowOutputs:
    """Run the head over every row; return each output by name, an array per row, in the order of the rows."""
    objective.eval()
    found: dict[str, list[tuple[int, NDArray[np.float32]]]] = {}
    with torch.inference_mode(), in_precision(objective, dtype):
        for batch in evaluation_batches(examples, micro_batch_tokens):
            for name, values in objective.outputs(batch.to(device)).items():
                arrays = values.float().cpu().numpy()
                found.setdefault(name, []).extend(zip(batch.rows.tolist(), arrays, strict=True))
    return {name: [array for _, array in sorted(pairs, key=itemgetter(0))] for name, pairs in found.items()}
