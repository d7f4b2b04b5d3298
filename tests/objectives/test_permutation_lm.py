"""Permutation language modelling: orders equal to those of data_utils.py."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertcli.objectives.permutation_lm import local_order, orders_of_rows

GOLDENS = Path(__file__).parents[1] / "goldens" / "xlnet"
CLS, SEP = 3, 4
ORDERS = json.loads(gzip.decompress((GOLDENS / "local_perm.json.gz").read_bytes()))["cases"]


@pytest.mark.parametrize("case", ORDERS, ids=lambda case: str(case["perm_size"]))
def test_orders_equal_the_original(case: dict[str, Any]) -> None:
    ids, is_masked = np.array([case["input"]]), np.array([case["is_masked"]], bool)
    own, ranks, is_target = local_order(np.isin(ids, (CLS, SEP)), is_masked, np.array([case["order"]]))
    hidden = (own[0, :, None] <= ranks[0]).astype(int)
    assert ["".join(map(str, row)) for row in hidden.tolist()] == case["perm_mask_rows"]
    assert is_target[0].astype(int).tolist() == case["target_mask"]


def test_the_first_half_sees_nothing_of_the_second_which_sees_all_of_the_first() -> None:
    ids = np.arange(9, 25)[None].repeat(3, 0)
    ids[:, [11, 14]], ids[:, 15] = SEP, CLS
    is_masked, rows = np.arange(16) % 3 == 0, np.array([4, 9, 2])
    own, ranks, _ = orders_of_rows(ids, is_masked[None].repeat(3, 0), rows, (SEP, CLS), key=5)
    hidden = own[:, :, None] <= ranks[:, None]
    assert hidden[:, :8, 8:].all()
    assert not hidden[:, 8:, :8].any()
    assert hidden[:, np.arange(16), np.arange(16)][:, is_masked & (ids[0] > CLS + 1)].all()
    alone, *_ = orders_of_rows(ids[:1], is_masked[None], rows[1:2], (SEP, CLS), key=5)
    assert (alone == own[1]).all()
