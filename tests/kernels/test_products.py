"""The gradients of a product are exact, in either precision."""

import pytest
import torch
from torch.nn.functional import linear

from bertcli.kernels.products import product
from tests.kernels.exact import PRECISIONS, assert_same, exactly, random


@PRECISIONS
@pytest.mark.parametrize(
    ("tokens", "inputs", "outputs"),
    [
        (77, 51, 32),
        (77, 512, 2048),
        (64, 512, 2048),
        (64, 2048, 512),
        pytest.param(2048, 512, 2048, marks=pytest.mark.torture),
    ],
)
def test_the_gradients_of_a_product(dtype: torch.dtype, tokens: int, inputs: int, outputs: int) -> None:
    given = [random(*shape, dtype=dtype) for shape in ((1, tokens, inputs), (outputs, inputs), (outputs,))]
    exact = exactly(*given)
    found, wanted = product(*given), linear(*exact)
    towards = random(1, tokens, outputs, dtype=dtype).detach()
    found.backward(towards)
    wanted.backward(towards.double())
    assert_same([found, *(each.grad for each in given)], [wanted, *(each.grad for each in exact)], dtype)
