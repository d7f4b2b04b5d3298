"""Cross entropy over a vocabulary without a copy of the logits in float32, of which torch's holds four."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from bertcli.kernels import faster

# M masked tokens, V vocabulary

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
        ctx.sums = log_sums(logits)
        total: Tensor = ctx.sums.sum() - logits.gather(1, labels[:, None]).sum(dtype=torch.float32)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        logits, labels = ctx.saved_tensors
        return cross_entropy_gradient(logits, labels, ctx.sums, gradient), None


@faster
def log_sums(logits: Tensor) -> Tensor:
    """The logarithm of the sum of the exponentials of each row of [M, V], in float32, [M]."""
    sums = torch.empty(len(logits), device=logits.device)
    for rows in _parts(logits):
        sums[rows] = logits[rows].float().logsumexp(1)
    return sums


@faster
def cross_entropy_gradient(logits: Tensor, labels: Tensor, sums: Tensor, factor: Tensor) -> Tensor:
    """The gradient of the summed cross entropies, [M, V], times a factor: softmax, less one at the label."""
    given = torch.empty_like(logits)
    for rows in _parts(logits):
        shares = (logits[rows].float() - sums[rows, None]).exp()
        shares.scatter_add_(1, labels[rows, None], -torch.ones_like(shares[:, :1]))
        given[rows] = (shares * factor).to(logits.dtype)
    return given


def _parts(logits: Tensor) -> Iterator[slice]:
    """Rows that are made float32 at once."""
    size = max(1, (CPU_ELEMENTS if logits.device.type == "cpu" else GPU_ELEMENTS) // logits.shape[1])
    return (slice(start, start + size) for start in range(0, len(logits), size))
