"""What the optimizer does on a CPU by compiled loops, each function named like its plain twin."""

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
    """The norm of all gradients, from sums of squares in float32."""
    if not all(fits(gradient) for gradient in gradients):
        return NotImplemented
    return torch.cat([_square_sums(gradient) for gradient in gradients]).sum().sqrt()


def _square_sums(gradient: Tensor) -> Tensor:
    """The sum of the squares of each row; a row that a sparse gradient lacks has 0, as one of zeros has."""
    values = gradient.values() if gradient.is_sparse else gradient
    values = values.reshape(len(values) if values.dim() > 1 else 1, -1)
    sums = torch.empty(len(values))
    loops("elementwise").square_sums(values, sums)
    return torch.zeros(len(gradient)).index_copy_(0, gradient.indices()[0], sums) if gradient.is_sparse else sums


def adam_step(optimizer: Any) -> Any:
    """The update of each weight, its moments and its copy in one pass."""
    if not fits(*(parameter for parameter, _, _ in optimizer.given())):
        return NotImplemented
    factor = 1 / float(optimizer.grad_scale)
    for parameter, gradient, group in optimizer.given():
        state = optimizer.state[parameter]
        state["step"] += 1
        settings = (group[name] for name in ("lr", "betas", "eps", "weight_decay"))
        numbers = _adam_numbers(factor, *settings, float(state["step"]))
        if gradient.is_sparse:
            optimizer.working_copy.deferred[parameter].update(gradient, numbers)
            continue
        copy = optimizer.working_copy.of(parameter)
        arrays = (each.view(-1) for each in (parameter, gradient, state["exp_avg"], state["exp_avg_sq"], copy))
        loops("elementwise").adam(*arrays, numbers)
    return None


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
