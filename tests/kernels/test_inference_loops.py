"""Without a gradient, results are written where they are read, and as near to exact ones as rounding lets them be."""

import pytest
import torch
from torch.nn.functional import layer_norm

from bertcli.kernels.cpu import has_tiles, loops
from tests.kernels.exact import COLUMNS, PRECISIONS, ROWS, assert_same, exactly, random

NEEDS_TILES = pytest.mark.skipif(not has_tiles(), reason="needs a CPU with matrix units (AMX)")


@PRECISIONS
def test_without_a_gradient_a_sum_and_its_layer_norm_are_written_where_they_are_read(dtype: torch.dtype) -> None:
    shapes = (ROWS, COLUMNS), (COLUMNS,), (ROWS, COLUMNS), (COLUMNS,), (COLUMNS,)
    given = [random(*shape, dtype=dtype).detach() for shape in shapes]
    product, bias, residual, weight, shift = exactly(*given)
    wanted = layer_norm(product + bias + residual, (COLUMNS,), weight, shift, 1e-12)
    loops("inference").add_and_norm_in_place(*given, 1e-12)
    assert_same([given[0]], [wanted], dtype)


@NEEDS_TILES
@pytest.mark.parametrize("size", [32, 64, 96])
@pytest.mark.parametrize("is_causal", [False, True])
def test_matrix_units_attend_as_exactly_as_what_they_read_is_rounded(size: int, is_causal: bool) -> None:
    lengths = (70, 64, 33, 16, 1)
    states = (4 * random(sum(lengths), 3, 2, size)).bfloat16().detach()  # scores of 16 and more: some weights are all
    found = states.new_empty(sum(lengths), 2, size)
    boundaries = torch.tensor((0, *lengths)).cumsum(0, dtype=torch.int32)
    loops("inference").attention(states, boundaries, 0.125, found, is_causal)
    for rows, context in zip(states.double().split(lengths), found.split(lengths), strict=True):
        query, key, value = rows.permute(1, 2, 0, 3)
        seen = torch.ones(len(rows), len(rows)).tril(0 if is_causal else len(rows)).bool()
        weights = torch.softmax((query @ key.transpose(-1, -2) * 0.125).masked_fill(~seen, -torch.inf), -1)
        wanted = (weights @ value).transpose(0, 1)
        assert (context.double() - wanted).norm() <= 2**-8 * wanted.norm()
        assert ((context.double() - wanted).abs() <= 2**-7 * (weights @ value.abs()).transpose(0, 1)).all()


@NEEDS_TILES
def test_matrix_units_hide_no_nan_and_show_it_to_no_other_sequence() -> None:
    states = random(50, 3, 2, 32).bfloat16().detach()
    states[35, 1, 1, 7] = torch.nan
    found = states.new_empty(50, 2, 32)
    loops("inference").attention(states, torch.tensor([0, 20, 50], dtype=torch.int32), 0.2, found, False)
    assert found[20:, 1].isnan().all()
    assert found[:, 0].isfinite().all()
    assert found[:20].isfinite().all()
