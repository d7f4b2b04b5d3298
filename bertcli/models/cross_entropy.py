"""Cross entropy over a vocabulary, and divergence from a teacher's logits, without copies of the logits in float32."""

from collections.abc import Iterator
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn.functional import log_softmax

from bertcli.kernels import faster

# M masked tokens, P positions, V vocabulary

CPU_ELEMENTS = 1 << 19  # in float32 at a time: they stay in the cache
GPU_ELEMENTS = 1 << 27


def vocabulary_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """The sum of what torch's cross_entropy gives in float32, for logits [M, V] of any precision and labels [M]."""
    return cast(Tensor, _CrossEntropy.apply(logits, labels))  # type: ignore[no-untyped-call]


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor) -> Tensor:
        ctx.save_for_backward(logits, labels)
        ctx.sums = log_sums(logits)
        return cast(Tensor, ctx.sums.sum() - logits.gather(1, labels[:, None]).sum(dtype=torch.float32))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        logits, labels = ctx.saved_tensors
        return cross_entropy_gradient(logits, labels, ctx.sums, gradient), None


@faster
def log_sums(logits: Tensor) -> Tensor:
    """The logarithm of the sum of the exponentials of each row of [M, V], in float32, [M]."""
    sums = torch.empty(len(logits), device=logits.device)
    for rows in parts_of(logits):
        sums[rows] = logits[rows].float().logsumexp(1)
    return sums


@faster
def cross_entropy_gradient(logits: Tensor, labels: Tensor, sums: Tensor, factor: Tensor) -> Tensor:
    """The gradient of the summed cross entropies, [M, V], times a factor: softmax, less one at the label."""
    given = torch.empty_like(logits)
    for rows in parts_of(logits):
        shares = (logits[rows].float() - sums[rows, None]).exp()
        shares.scatter_add_(1, labels[rows, None], -torch.ones_like(shares[:, :1]))
        given[rows] = (shares * factor).to(logits.dtype)
    return given


def parts_of(logits: Tensor) -> Iterator[slice]:
    """Rows that are made float32 at once."""
    size = max(1, (CPU_ELEMENTS if logits.device.type == "cpu" else GPU_ELEMENTS) // logits.shape[1])
    return (slice(start, start + size) for start in range(0, len(logits), size))


def soft_divergence(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """The sum over positions of KL(teacher || student) of softmax(logits / T), times T², for logits [P, V]."""
    return cast(Tensor, _SoftDivergence.apply(student, teacher, temperature))  # type: ignore[no-untyped-call]


class _SoftDivergence(torch.autograd.Function):
    """The gradient is made with the loss, so that no probabilities are kept."""

    @staticmethod
    def forward(ctx: Any, student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
        gradient, total = torch.empty_like(student), student.new_zeros((), dtype=torch.float32)
        for rows in parts_of(student):
            own = log_softmax(student[rows].float() / temperature, -1)
            theirs = log_softmax(teacher[rows].float() / temperature, -1)
            shares = theirs.exp()
            total += (shares * (theirs - own)).sum()
            gradient[rows] = ((own.exp() - shares) * temperature).to(gradient.dtype)
        ctx.save_for_backward(gradient)
        return total * temperature**2

    @staticmethod
    def backward(ctx: Any, factor: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * factor.to(gradient.dtype), None, None
