"""Keyed dropout: masks are functions of the step, the layer, and a row's place in the data, however rows are batched."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bertcli.data.packing.batches import PackedBatch
from bertcli.kernels import faster

# T tokens of the batch, R rows, C columns

CHANCES = 1 << 16  # each element has 16 random bits
BLOCK = 32  # columns that share 16 hashes of 32 bits
HEAD = np.uint32(0x9E3779B9)  # sets the rows of attention heads apart
Names = NDArray[np.uint32]
Mask = tuple[
    np.uint64, int, np.float32, Names
]  # key, how many of the chances drop an element, scale, names of the rows

_keys = np.random.SFC64(0)
_names: Names = np.zeros(0, np.uint32)


def seed_dropout(key: int, torch_key: int | None = None) -> None:
    """Make all masks that follow a function of `key` and of the names of rows; those of torch one of `torch_key`."""
    global _keys
    torch.manual_seed(key if torch_key is None else torch_key)
    _keys = np.random.SFC64(key)


def name_rows(batch: PackedBatch, is_token: Tensor | None = None) -> None:
    """Name the tokens of a batch, [T], by their row of the data and their position in it.

    `is_token` says which elements of the layout that the layers see are tokens; all padding gets the name 0.
    """
    global _names
    if batch.input_ids.device.type != "cpu":
        return
    rows = batch.rows if batch.sequence_rows is None else batch.sequence_rows
    of_rows = _mixed(np.repeat(rows, batch.lengths).astype(np.uint32))
    _names = _mixed(of_rows + batch.position_ids.numpy().astype(np.uint32))
    if is_token is not None:
        padded = np.zeros(is_token.shape, np.uint32)
        padded[is_token.numpy()] = _names
        _names = padded.ravel()


def choose_rows(model: nn.Module, chosen: Tensor | slice) -> None:
    """Keep the names of some rows, [R], where a model is trained: from here on, its layers see only these."""
    global _names
    if model.training and isinstance(chosen, Tensor) and chosen.device.type == "cpu":
        _names = _names[chosen.numpy()]


def next_mask(rate: float, rows: int) -> Mask:
    """A mask with a new key for so many rows; the rate is rounded to a multiple of 1/65,536. A rate of 0 draws no key."""
    dropped = round(rate * CHANCES)
    key = _keys.random_raw() if dropped else 0
    names = _names if len(_names) == rows else np.arange(rows, dtype=np.uint32)
    return np.uint64(key), dropped, np.float32(CHANCES / max(1, CHANCES - dropped)), names


def of_heads(mask: Mask, rows: NDArray[np.int64], heads: int) -> Mask:
    """The mask of attention weights, whose rows are heads and tokens: `rows`, [n, S], to [n * A * S]."""
    names = mask[3][rows][:, None] + np.arange(heads, dtype=np.uint32)[:, None] * HEAD
    return (*mask[:3], _mixed(names).reshape(-1))


def dropout(values: Tensor, rate: float, training: bool) -> Tensor:
    """Do what nn.functional.dropout does, on a CPU with the next mask."""
    if not training or rate == 0 or values.device.type != "cpu":
        return nn.functional.dropout(values, rate, training)
    return drop(values, next_mask(rate, values.shape[:-1].numel()))


@faster
def drop(values: Tensor, mask: Mask) -> Tensor:
    """Multiply values, [..., C], by 0 where the mask drops them, else by its scale; all axes but the last count as rows."""
    columns = values.shape[-1]
    is_dropped = _chances(mask, columns) < mask[1]
    factors = torch.from_numpy(np.where(is_dropped, np.float32(0), mask[2])).view(values.shape)
    return (values * factors).to(values.dtype)


def _chances(mask: Mask, columns: int) -> NDArray[np.uint32]:
    """16 random bits for each element, [R, C]: a hash of the key, the row's name and the column makes those of two elements."""
    low, high = np.uint32(mask[0] & np.uint64(0xFFFFFFFF)), np.uint32(mask[0] >> np.uint64(32))
    first = _mixed(mask[3] ^ low)[:, None]
    second = _mixed(first + high)
    places = np.arange(-(-columns // BLOCK) * BLOCK // 2, dtype=np.uint32)
    bits = _mixed(_mixed(places ^ first) + second).reshape(len(first), -1, 1, BLOCK // 2)
    halves = np.concatenate([bits & np.uint32(0xFFFF), bits >> np.uint32(16)], axis=2)
    return halves.reshape(len(first), -1)[:, :columns]


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

    def next_mask(self, rows: int) -> Mask:
        """The mask of the next pass, which drops nothing unless training."""
        return next_mask(self.p if self.training else 0.0, rows)


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
