"""Shares of keys by content, distance and type are those of the plain function, in either direction of reading."""

import numpy as np
import pytest
import torch

from bertcli.data.packing.sequences import Group
from bertcli.models.dropout import Mask
from bertcli.models.own.permuted import Queries
from bertcli.models.own.two_streams import shares_of_keys
from tests.kernels.exact import PRECISIONS, assert_same, exactly, random

HEADS, COUNT, QUERIES, KEYS = 3, 5, 7, 19
CPU = torch.device("cpu")


@PRECISIONS
@pytest.mark.parametrize("dropped", [0, 9_000])  # of 65,536
@pytest.mark.parametrize("directions", [None, [0, 1, 1, 0, 1]])
def test_shares_of_keys(dtype: torch.dtype, dropped: int, directions: list[int] | None) -> None:
    draws = torch.Generator().manual_seed(3)
    shape = (COUNT, QUERIES, KEYS)
    hidden, differs = (torch.rand(shape, generator=draws) < 0.4 for _ in range(2))
    hidden[2, 3] = True  # a query that sees nothing has equal shares of all
    places = torch.randint(KEYS, shape[:2], generator=draws)
    group = Group(COUNT * QUERIES, shape[:2], [COUNT], torch.tensor([QUERIES] * COUNT), CPU)
    asking = Queries(group, slice(0), places, hidden, differs)
    names = torch.arange(COUNT * QUERIES, dtype=torch.int32).view(shape[:2]) * 77
    mask: Mask = (np.uint64(12345678901), dropped, np.float32(65_536 / (65_536 - dropped)), names)
    backwards = None if directions is None else torch.tensor(directions)
    sizes = ((KEYS,), (2 * KEYS,), ())
    given = [random(HEADS, COUNT, QUERIES, *size, dtype=dtype) for size in sizes]
    exact = exactly(*given)
    found = shares_of_keys(*given, asking, backwards, mask)
    wanted = shares_of_keys.__wrapped__(*exact, asking, backwards, mask)
    assert torch.equal(found < 1e-30, wanted < 1e-30)  # what is hidden or dropped
    towards = random(*found.shape, dtype=dtype).detach()
    found.backward(towards)
    wanted.backward(towards.double())
    assert_same([found, *(each.grad for each in given)], [wanted, *(each.grad for each in exact)], dtype)
