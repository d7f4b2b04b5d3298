"""What the optimizer does on a CPU by compiled loops, each function named like its plain twin."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bertcli.kernels.cpu import fits, loops

# V vocabulary, H what a layer is wide

MANY_ROWS = 4096  # of an embedding, of which a batch reads few
MOST_DEFERRED = 256  # updates of a row


def gradient_norm(gradients: list[Tensor]) -> Any:
    """The norm of all gradients, from the sum of the squares of each row in float32."""
    if not all(fits(gradient) for gradient in gradients):
        return NotImplemented
    pairs: dict[torch.dtype, list[tuple[Tensor, Tensor]]] = {}
    sums = []
    for gradient in gradients:
        values = gradient.values() if gradient.is_sparse else gradient
        rows = values.reshape(len(values) if values.dim() > 1 else 1, -1).contiguous()
        sums.append(torch.empty(len(rows)))
        pairs.setdefault(rows.dtype, []).append((rows, sums[-1]))
    for of_dtype in pairs.values():
        square_sums(of_dtype)
    return torch.cat(list(map(_of_all_rows, gradients, sums))).sum().sqrt()


def _of_all_rows(gradient: Tensor, sums: Tensor) -> Tensor:
    """The sums of the rows of a gradient; a row that a sparse one lacks has 0, as one of zeros has."""
    return torch.zeros(len(gradient)).index_copy_(0, gradient.indices()[0], sums) if gradient.is_sparse else sums


def square_sums(pairs: list[tuple[Tensor, Tensor]]) -> None:
    """Write the sums of squares of the rows of arrays, each [n, H], contiguous and of one precision, to [n]."""
    elementwise, (first, _) = loops("elementwise"), pairs[0]
    shapes = np.array([rows.shape for rows, _ in pairs])
    parts = _parts(tuple(shapes[:, 0].tolist()), elementwise.ROWS)
    elementwise.square_sums(parts, _addresses(pairs), shapes, first.flatten()[:0])


def adam_step(optimizer: Any) -> Any:
    """The update of each weight, its moments and its copy in one pass."""
    given = [*optimizer.given()]
    if not all(fits(weight) and weight.dtype == torch.float32 and weight.is_contiguous() for weight, _, _ in given):
        return NotImplemented
    factor, states = 1 / float(optimizer.grad_scale), [optimizer.state[weight] for weight, _, _ in given]
    counts = [state["step"] for state in states]
    torch._foreach_add_(counts, 1.0)
    updates: dict[torch.dtype, list[tuple[Any, ...]]] = {}
    for (weight, gradient, group), state, step in zip(given, states, torch.stack(counts).tolist(), strict=True):
        settings = (group[name] for name in ("lr", "betas", "eps", "weight_decay"))
        numbers = _adam_numbers(factor, *settings, step)
        if gradient.is_sparse:
            optimizer.working_copy.deferred[weight].update(gradient, numbers)
            continue
        moments, copy = (state["exp_avg"], state["exp_avg_sq"]), optimizer.working_copy.of(weight)
        updates.setdefault(gradient.dtype, []).append((weight, gradient.contiguous(), *moments, copy, numbers))
    for of_dtype in updates.values():
        update_weights(of_dtype)
    return None


def update_weights(updates: list[tuple[Any, ...]]) -> None:
    """Make the updates of weights: each a weight, its gradient, moments and copy, which may be empty, and the numbers.

    The arrays of an update are contiguous and of one shape; weights and moments are float32, all gradients of one precision.
    """
    elementwise = loops("elementwise")
    arrays, numbers = [update[:-1] for update in updates], np.array([update[-1] for update in updates])
    parts = _parts(tuple(weight.numel() for weight, *_ in arrays), elementwise.ELEMENTS)
    elementwise.adam(parts, _addresses(arrays), numbers, *(each.flatten()[:0] for each in (arrays[0][1], arrays[0][4])))


def _addresses(arrays: Sequence[tuple[Tensor, ...]]) -> Any:
    """Where arrays lie: the loops take many at once, as calling them takes as long as what they do to a small one."""
    return np.array([[each.data_ptr() for each in row] for row in arrays])


@lru_cache(maxsize=64)
def _parts(sizes: tuple[int, ...], most: int) -> Any:
    """Cuts of arrays of these sizes for threads to share: the number of the array, where a cut begins, and where it ends."""
    counts = -(-np.array(sizes) // most)
    numbers = np.repeat(np.arange(len(sizes)), counts)
    first = most * (np.arange(len(numbers)) - np.repeat(counts.cumsum() - counts, counts))
    return np.stack([numbers, first, np.minimum(first + most, np.array(sizes)[numbers])], 1)


@lru_cache(maxsize=64)
def _adam_numbers(
    factor: float, rate: float, betas: tuple[float, float], epsilon: float, decay: float, step: float
) -> tuple[Any, ...]:
    """What an update reads, in float32: the same for most of the weights."""
    beta1, beta2 = betas
    of_gradient = (factor, beta1, 1 - beta1, beta2, 1 - beta2)
    of_step = (rate / (1 - beta1**step), (1 - beta2**step) ** -0.5, epsilon, rate * decay)
    return tuple(map(np.float32, of_gradient + of_step))


def defer_rows(optimizer: Any) -> Any:
    """Defer the updates of rows without a gradient, in large embeddings that only their own module reads."""
    copy = optimizer.working_copy
    for own in copy.embeddings():
        if own.requires_grad and len(own) >= MANY_ROWS and fits(own):
            copy.defer(own, _DeferredRows(optimizer, own))


class _DeferredRows:
    """The updates of an embedding, [V, H], since all its rows were up to date."""

    def __init__(self, optimizer: Any, weight: Tensor) -> None:
        self.optimizer, self.weight = optimizer, weight
        self.numbers = np.empty((MOST_DEFERRED, 9), np.float32)  # of each update
        self.count = 0
        self.done = torch.zeros(len(weight), dtype=torch.long)  # updates of each row, [V]

    def read(self, ids: Tensor | None = None) -> None:
        """Bring the rows of ids, or all, up to date."""
        if self.count:
            copy = self.optimizer.working_copy.of(self.weight)
            none = torch.empty(0, self.weight.shape[1], dtype=copy.dtype if len(copy) else self.weight.dtype)
            rows = torch.arange(len(self.weight)) if ids is None else ids.unique()  # type: ignore[no-untyped-call]
            self._update(rows, none)
        if ids is None:
            self.count = 0
            self.done.zero_()

    def update(self, gradient: Tensor, numbers: tuple[Any, ...]) -> None:
        """Update the rows that a sparse gradient has; the others miss this update until they are read."""
        self.numbers[self.count] = numbers
        self.count += 1
        self._update(gradient.indices()[0], gradient.values())
        if self.count == MOST_DEFERRED:
            self.read()

    def _update(self, rows: Tensor, gradient: Tensor) -> None:
        state, copy = self.optimizer.state[self.weight], self.optimizer.working_copy.of(self.weight)
        mean, square = state["exp_avg"].view(-1), state["exp_avg_sq"].view(-1)
        of_rows = (rows, self.done, self.numbers[: self.count])
        loops("elementwise").adam_rows(self.weight.view(-1), gradient, mean, square, copy.view(-1), *of_rows)
