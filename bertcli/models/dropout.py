"""Dropout with masks from a fast generator."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

# On a CPU torch draws a mask at 8 ns an element; 16 bits of SFC64 beside a threshold take less than one.
CHANCES = 1 << 16
_bits = np.random.SFC64(0)


def seed_dropout(key: int) -> None:
    """Make all masks that follow a function of `key`, on every device."""
    global _bits
    torch.manual_seed(key)
    _bits = np.random.SFC64(key)


def dropout(values: Tensor, rate: float, training: bool) -> Tensor:
    """What nn.functional.dropout does; on a CPU the rate is rounded to 1/65,536."""
    if not training or round(rate * CHANCES) in (0, CHANCES) or values.device.type != "cpu":
        return nn.functional.dropout(values, rate, training)
    dropped: Tensor = _Drop.apply(values, rate)  # type: ignore[no-untyped-call]
    return dropped


def keep_mask(like: Tensor, rate: float) -> Tensor:
    """Draw a mask of the shape and type of `like`: 0 where an element is dropped, else 1."""
    if like.device.type != "cpu":
        return torch.empty_like(like).bernoulli_(1 - round(rate * CHANCES) / CHANCES)
    drawn = torch.from_numpy(_bits.random_raw(-(-like.numel() // 4)).view(np.int16))[: like.numel()]
    kept = torch.ge(drawn, round(rate * CHANCES) - CHANCES // 2, out=torch.empty_like(drawn))
    return kept.to(like.dtype).view(like.shape)


class _Drop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, rate: float) -> Tensor:
        mask = keep_mask(values, rate)
        ctx.save_for_backward(mask)
        ctx.rate = rate
        return scaled(values, mask, rate)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (mask,) = ctx.saved_tensors
        return scaled(gradient, mask, ctx.rate), None


def scaled(values: Tensor, mask: Tensor, rate: float) -> Tensor:
    """The values that a mask keeps, over how often it keeps one: in one pass, rounded once."""
    kept = CHANCES - round(rate * CHANCES)
    return torch.addcmul(values.new_zeros(()), values, mask, value=CHANCES / kept if kept else 0.0)


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


def with_fast_dropout(model: nn.Module) -> None:
    """Put ours in the place of every nn.Dropout."""
    for parent in model.modules():
        for name, child in parent.named_children():
            if type(child) is nn.Dropout:
                setattr(parent, name, Dropout(child.p).train(child.training))
