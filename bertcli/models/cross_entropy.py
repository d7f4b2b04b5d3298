"""Cross entropy over a vocabulary without its logits in float32, of which torch's holds four copies."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from bertcli.kernels.cpu import fits, kernels
from bertcli.kernels.gpu import compiled, compiles

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
        ctx.sums = torch.empty(len(logits), device=logits.device)
        if fits(logits):
            kernels().log_sums(logits, ctx.sums)
        else:
            for rows in _parts(logits):
                ctx.sums[rows] = _log_sums(logits[rows])
        total: Tensor = ctx.sums.sum() - logits.gather(1, labels[:, None]).sum(dtype=torch.float32)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        logits, labels = ctx.saved_tensors
        given = torch.empty_like(logits)
        if fits(logits):
            kernels().cross_entropy_backward(logits, labels, ctx.sums, float(gradient), given)
        else:
            for rows in _parts(logits):
                given[rows] = _gradient(logits[rows], labels[rows], ctx.sums[rows], gradient)
        return given, None


@compiled
def _log_sums(logits: Tensor) -> Tensor:
    return logits.float().logsumexp(1)


@compiled
def _gradient(logits: Tensor, labels: Tensor, sums: Tensor, factor: Tensor) -> Tensor:
    """The softmax, less one at the label, times what the loss is given."""
    shares = (logits.float() - sums[:, None]).exp()
    is_label = labels[:, None] == torch.arange(logits.shape[1], device=logits.device)
    return ((shares - is_label.float()) * factor).to(logits.dtype)


def _parts(logits: Tensor) -> Iterator[slice]:
    """Rows that are made float32 at once; all, where nothing is."""
    elements = CPU_ELEMENTS if logits.device.type == "cpu" else GPU_ELEMENTS
    size = max(1, len(logits) if compiles(logits) else elements // logits.shape[1])
    return (slice(start, start + size) for start in range(0, len(logits), size))
