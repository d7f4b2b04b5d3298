"""A model run over all rows, longest first, its outputs put back into input order."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from bertcli.data.batches import Examples, evaluation_batches
from bertcli.models.heads import Objective

Rows = dict[str, list[NDArray[np.float32]]]


def run_model(
    objective: Objective, examples: Examples, device: torch.device, micro_batch_tokens: int, dtype: str
) -> Rows:
    """Run the head over every row; return for each output one array a row, cut to the row's own length."""
    objective.eval()
    rows: dict[str, dict[int, NDArray[np.float32]]] = {}
    autocast = torch.autocast(device.type, getattr(torch, dtype), enabled=dtype != "float32")
    with torch.inference_mode(), autocast:
        for batch in evaluation_batches(examples, micro_batch_tokens):
            for name, values in objective.outputs(batch.to(device)).items():
                array = values.float().cpu().numpy()
                for row, length, value in zip(batch.rows, batch.lengths, array, strict=True):
                    per_token = objective.kind == "span"
                    rows.setdefault(name, {})[int(row)] = value[:length] if per_token else value
    return {name: [by_row[row] for row in range(len(by_row))] for name, by_row in rows.items()}
