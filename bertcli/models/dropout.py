"""Keyed dropout: masks are functions of the step, the layer, and a row's place in the data, however rows are batched."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bertcli.data.packing.batches import PackedBatch, send
from bertcli.data.packing.drawn_bits import CHANCES, chances, hashes, mixed, signed
from bertcli.kernels import faster

# T tokens of the batch, R rows, C columns

HEAD = signed(0x9E3779B9)  # sets the rows of attention heads apart
# Key, how many of the chances drop an element, scale, names of the rows.
Mask = tuple[np.uint64, int, np.float32, Tensor]

_keys = np.random.SFC64(0)
_names = torch.zeros(0, dtype=torch.int32)


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
    rows = batch.rows if batch.sequence_rows is None else batch.sequence_rows
    of_rows = torch.from_numpy(np.repeat(rows, batch.lengths).astype(np.int32))
    _names = mixed(mixed(send(of_rows, batch.input_ids.device)) + batch.position_ids.int())
    if is_token is not None:  # without a boolean index, for which a CPU would wait for the GPU
        _names = _names.new_zeros(is_token.shape).masked_scatter_(is_token, _names).flatten()


def choose_rows(model: nn.Module, chosen: Tensor | slice) -> None:
    """Keep the names of some rows, [R], where a model is trained: from here on, its layers see only these."""
    global _names
    if model.training:
        _names = _names[chosen]


def name_again(model: nn.Module, chosen: Tensor) -> None:
    """Where a model is trained, name copies of some rows, [R], which follow all others, apart from these."""
    global _names
    if model.training:
        _names = torch.cat([_names, mixed(_names[chosen] ^ HEAD)])


def drawn_again() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    """The contexts of a pass and, for torch.utils.checkpoint, of its repetition, which draws the same masks."""
    return nullcontext(), _drawing_from(_keys.state, _names)


@contextmanager
def _drawing_from(state: Any, names: Tensor) -> Iterator[None]:
    global _keys, _names
    interrupted = _keys, _names
    _keys, _names = np.random.SFC64(0), names
    _keys.state = state
    try:
        yield
    finally:
        _keys, _names = interrupted


def next_mask(rate: float, rows: int) -> Mask:
    """A mask with a new key for so many rows; the rate is rounded to a multiple of 1/65,536. A rate of 0 draws no key."""
    dropped = round(rate * CHANCES)
    key = _keys.random_raw() if dropped else 0
    names = _names if len(_names) == rows else torch.arange(rows, dtype=torch.int32)
    return np.uint64(key), dropped, np.float32(CHANCES / max(1, CHANCES - dropped)), names


def of_heads(mask: Mask, rows: Tensor, heads: int) -> Mask:
    """The mask of attention weights, whose rows are heads and tokens: `rows`, [n, S], to [n * A * S]."""
    head = torch.arange(heads, dtype=torch.int32, device=rows.device) * HEAD
    return (*mask[:3], mixed(mask[3].to(rows.device)[rows][:, None] + head[:, None]).flatten())


def dropout(values: Tensor, rate: float, training: bool) -> Tensor:
    """Do what nn.functional.dropout does, with the next mask."""
    return drop(values, next_mask(rate, values.shape[:-1].numel())) if training and rate else values


def drop_alike(values: Tensor, rate: float, training: bool) -> Tensor:
    """As `dropout`, of what all rows of the data share, [..., C]."""
    if not training or rate == 0:
        return values
    names = torch.arange(values.shape[:-1].numel(), dtype=torch.int32, device=values.device)
    return drop(values, (*next_mask(rate, 0)[:3], names))


@faster
def drop(values: Tensor, mask: Mask) -> Tensor:
    """Multiply values, [..., C], by 0 where the mask drops them, else by its scale; all axes but the last count as rows."""
    key, dropped, scale, names = mask
    is_dropped = chances(*hashes(int(key), names.to(values.device)), values.shape[-1]) < dropped
    return (values * torch.where(is_dropped, 0.0, float(scale)).view(values.shape)).to(values.dtype)


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
