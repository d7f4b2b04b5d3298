"""Losses, gradients and weights that are not finite, and memory that does not suffice."""

from typing import Any

import torch

from bertcli.data.packing.batches import PackedBatch
from bertcli.errors import RunError

SKIPPED_IN_A_ROW = 10  # updates, after which a run stops


def last_of(step: int, micro_batches: list[PackedBatch]) -> str:
    """Words for the last of several updates, with the first rows of its batch."""
    rows = ", ".join(map(str, micro_batches[0].rows[:5].tolist()))
    return f"the last at step {step + 1:,}, whose batch has the rows {rows}, ..."


def not_finite(what: str, learning_rate: float, folder: Any) -> RunError:
    """The error of a run that has diverged; its hint works whether there is a checkpoint or not."""
    command = f"{folder.command_to_resume} --learning-rate {learning_rate / 10:g}"
    return RunError(what, f"Continue with a smaller learning rate: {command}")


def is_out_of_memory(error: RuntimeError) -> bool:
    """Whether memory, of a GPU or a CPU, did not suffice."""
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


def out_of_memory(micro_batches: list[PackedBatch]) -> RunError:
    """The error of a step that memory does not hold."""
    tokens = max(len(batch.input_ids) for batch in micro_batches)
    return RunError(
        f"Out of memory in a pass over {tokens:,} tokens.",
        f"Give --micro-batch-tokens {tokens // 2}: {2 * len(micro_batches)} passes a step instead of {len(micro_batches)}, "
        "the same batch and the same result; or --auto-batch-size, which finds how many by itself.",
    )
