"""Cross entropy over a vocabulary, a few rows at a time: torch's holds every logit in float32, four times over."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from bertcli.models.cpu import fits, kernels

CPU_ELEMENTS = 1 << 19  # in float32 at a time: they stay in the cache
GPU_ELEMENTS = 1 << 27


def vocabulary_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """The sum of what torch's cross_entropy gives in float32, for logits [M, V] of any precision and labels [M]."""
    total: Tensor = _CrossEntropy.apply(logits, labels)  # type: ignore[no-untyped-call]
    return total


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor) -> Tensor:
        ctx.save_for_backward(logits, labels)
        if fits(logits):
            ctx.sums = torch.empty(len(logits))
            kernels().log_sums(logits, ctx.sums)
            total: Tensor = ctx.sums.sum() - logits.gather(1, labels[:, None]).sum(dtype=torch.float32)
            return total
        losses = [cross_entropy(logits[rows].float(), labels[rows], reduction="sum") for rows in _parts(logits)]
        return torch.stack(losses).sum() if losses else logits.new_zeros((), dtype=torch.float32)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        logits, labels = ctx.saved_tensors
        given = torch.empty_like(logits)
        if fits(logits):
            kernels().cross_entropy_backward(logits, labels, ctx.sums, float(gradient), given)
            return given, None
        for rows in _parts(logits):
            shares = torch.softmax(logits[rows], dim=1, dtype=torch.float32)
            shares.scatter_add_(1, labels[rows, None], shares.new_full((len(shares), 1), -1.0))
            given[rows] = shares.mul_(gradient)
        return given, None


def _parts(logits: Tensor) -> Iterator[slice]:
    size = max(1, (CPU_ELEMENTS if logits.device.type == "cpu" else GPU_ELEMENTS) // logits.shape[1])
    return (slice(start, start + size) for start in range(0, len(logits), size))
