"""Keyed dropout: masks are functions of a key, a row and a column, so that they are drawn again instead of kept."""

from collections.abc import Iterator
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bertcli.kernels import faster

# R rows, C columns

CHANCES = 1 << 16  # each element has 16 random bits
Mask = tuple[np.uint64, int, np.float32]  # key, how many of the chances drop an element, scale of the others

_keys = np.random.SFC64(0)


def seed_dropout(key: int) -> None:
    """Make all masks that follow a function of `key`, on every device."""
    global _keys
    torch.manual_seed(key)
    _keys = np.random.SFC64(key)


def next_mask(rate: float) -> Mask:
    """A mask with a new key; the rate is rounded to a multiple of 1/65,536. A rate of 0 draws no key."""
    dropped = round(rate * CHANCES)
    key = _keys.random_raw() if dropped else 0
    return np.uint64(key), dropped, np.float32(CHANCES / max(1, CHANCES - dropped))


def next_masks(rate: float) -> Iterator[Mask]:
    """The masks to come, each drawn when it is asked for."""
    return iter(partial(next_mask, rate), None)


def dropout(values: Tensor, rate: float, training: bool) -> Tensor:
    """Do what nn.functional.dropout does, on a CPU with the next mask."""
    if not training or rate == 0 or values.device.type != "cpu":
        return nn.functional.dropout(values, rate, training)
    return drop(values, next_mask(rate))


@faster
def drop(values: Tensor, mask: Mask) -> Tensor:
    """Multiply values, [..., C], by 0 where the mask drops them, else by its scale; all axes but the last count as rows."""
    columns = values.shape[-1]
    _, dropped, scale = mask
    is_dropped = _chances(mask, values.numel() // max(1, columns), columns) < dropped
    factors = torch.from_numpy(np.where(is_dropped, np.float32(0), scale)).view(values.shape)
    return (values * factors).to(values.dtype)


def _chances(mask: Mask, rows: int, columns: int) -> NDArray[np.uint32]:
    """16 random bits for each element, [R, C]: a hash of the key and the element's place makes those of two elements."""
    half = -(-columns // 2)
    low, high = np.uint32(mask[0] & np.uint64(0xFFFFFFFF)), np.uint32(mask[0] >> np.uint64(32))
    places = np.arange(rows * half).astype(np.uint32).reshape(rows, half)
    bits = _mixed(_mixed(places ^ low) + high)
    return np.concatenate([bits & np.uint32(0xFFFF), bits >> np.uint32(16)], axis=1)[:, :columns]


def _mixed(bits: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """lowbias32 of hash-prospector: a one-to-one function of 32 bits."""
    bits = (bits ^ bits >> np.uint32(16)) * np.uint32(0x7FEB352D)
    bits = (bits ^ bits >> np.uint32(15)) * np.uint32(0x846CA68B)
    return bits ^ bits >> np.uint32(16)


class Dropout(nn.Dropout):
    """nn.Dropout with keyed masks."""

    def forward(self, input: Tensor) -> Tensor:
        """Drop elements while training."""
        return dropout(input, self.p, self.training)

    def next_mask(self) -> Mask:
        """The mask of the next pass, which drops nothing unless training."""
        return next_mask(self.p if self.training else 0.0)


def use_keyed_dropout(model: nn.Module) -> None:
    """Replace every nn.Dropout by keyed dropout."""
    for module in list(model.modules()):
        for name, child in module.named_children():
            if type(child) is nn.Dropout:
                setattr(module, name, Dropout(child.p).train(child.training))


def set_dropout(model: nn.Module, rate: float) -> None:
    """Change the dropout rate of the modules, but not in the configuration, which fine-tuning will read."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = rate
