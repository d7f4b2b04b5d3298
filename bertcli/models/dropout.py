"""Dropout whose masks are functions of a key: a CPU draws them where they are used, and again on the way back."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bertcli.kernels.cpu import fits, kernels, rows

CHANCES = 1 << 16  # of a CPU, which draws 16 bits an element
# A key, how many of the chances drop an element, what others are multiplied by.
Mask = tuple[np.uint64, int, np.float32]

_keys = np.random.SFC64(0)


def seed_dropout(key: int) -> None:
    """Make all masks that follow a function of `key`, on every device."""
    global _keys
    torch.manual_seed(key)
    _keys = np.random.SFC64(key)


def next_mask(rate: float) -> Mask:
    """The mask to drop with next, with a key of its own; the rate is rounded to 1/65,536."""
    dropped = round(rate * CHANCES)
    key = _keys.random_raw() if dropped else 0
    return np.uint64(key), dropped, np.float32(CHANCES / max(1, CHANCES - dropped))


def dropout(values: Tensor, rate: float, training: bool) -> Tensor:
    """What nn.functional.dropout does."""
    if not training or rate == 0 or not fits(values):
        return nn.functional.dropout(values, rate, training)
    dropped: Tensor = _Drop.apply(values, next_mask(rate))  # type: ignore[no-untyped-call]
    return dropped


class _Drop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, mask: Mask) -> Tensor:
        ctx.mask = mask
        return _masked(values, mask)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _masked(gradient, ctx.mask), None


def _masked(values: Tensor, mask: Mask) -> Tensor:
    masked = torch.empty_like(values, memory_format=torch.contiguous_format)
    kernels().drop(rows(values), rows(masked), mask)
    return masked


class Dropout(nn.Dropout):
    """nn.Dropout with such masks."""

    def forward(self, input: Tensor) -> Tensor:
        """Drop elements while training."""
        return dropout(input, self.p, self.training)


def set_dropout(model: nn.Module, rate: float) -> None:
    """Train with another rate than the model's configuration says, which stays as it is for those who fine-tune it."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = rate
