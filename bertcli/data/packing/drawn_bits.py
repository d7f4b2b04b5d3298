"""Random bits of the elements of rows: a hash of a key, the row's name and the column, the same on every device."""

import torch
from torch import Tensor

# R rows, C columns; 32 bits are an int32, whose products wrap around

CHANCES = 1 << 16  # each element has 16 random bits
BLOCK = 32  # columns that share 16 hashes of 32 bits


def mixed(bits: Tensor) -> Tensor:
    """lowbias32 of hash-prospector: a one-to-one function of 32 bits."""
    bits = (bits ^ _shifted(bits, 16)) * signed(0x7FEB352D)
    bits = (bits ^ _shifted(bits, 15)) * signed(0x846CA68B)
    return bits ^ _shifted(bits, 16)


def hashes(key: int, names: Tensor) -> tuple[Tensor, Tensor]:
    """Two hashes of a key of 64 bits and of the names of rows, [R] each."""
    first = mixed(names ^ signed(key & 0xFFFFFFFF))
    return first, mixed(first + signed(key >> 32))


def chances(first: Tensor, second: Tensor, columns: int) -> Tensor:
    """16 random bits for each element, [R, C], by the hashes of the rows; a hash makes those of two elements."""
    place = torch.arange(-(-columns // BLOCK) * BLOCK // 2, dtype=torch.int32, device=first.device)
    bits = mixed(mixed(place ^ first[:, None]) + second[:, None]).view(len(first), -1, BLOCK // 2)
    return torch.stack([bits & CHANCES - 1, _shifted(bits, 16)], dim=2).view(len(first), -1)[:, :columns]


def signed(bits: int) -> int:
    """The int32 of 32 bits."""
    return bits - (bits >> 31 << 32)


def _shifted(bits: Tensor, count: int) -> Tensor:
    return bits >> count & (1 << 32 - count) - 1
