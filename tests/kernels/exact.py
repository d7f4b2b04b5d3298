"""Random tensors, the same numbers in float64, and how near to them a kernel must be."""

import pytest
import torch
from torch import Tensor

from bertcli.models.dropout import Mask, drop

ROWS, COLUMNS = 77, 51  # neither a multiple of a block nor of a vector
PRECISIONS = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])


def random(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).to(dtype).requires_grad_()


def exactly(*tensors: Tensor) -> list[Tensor]:
    """The same numbers in float64."""
    return [tensor.detach().double().requires_grad_() for tensor in tensors]


def assert_same(found: list[Tensor], wanted: list[Tensor], dtype: torch.dtype) -> None:
    """Equal but for the rounding of what was written; sums over rows add roundings up."""
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == dtype
        bound = 2e-6 if dtype == torch.float32 else 2**-8
        assert (one.double() - other).norm() <= bound * other.norm() + bound * 1e-3


def factors(mask: Mask, rows: int, columns: int) -> Tensor:
    """What a mask multiplies each element by, drawn plainly."""
    return drop.__wrapped__(torch.ones(rows, columns), mask).double()
