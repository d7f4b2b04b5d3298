"""A product and its gradients are exact, in either precision, by either library."""

import math

import pytest
import torch
from torch.nn.functional import linear

from bertcli.kernels import products
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
@pytest.mark.parametrize("by_onednn", [False, True])
def test_the_gradients_of_a_product(
    dtype: torch.dtype, tokens: int, inputs: int, outputs: int, by_onednn: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(products, "onednn_rows", lambda: 0 if by_onednn else math.inf)
    given = [random(*shape, dtype=dtype) for shape in ((1, tokens, inputs), (outputs, inputs), (outputs,))]
    exact = exactly(*given)
    found, wanted = product(*given), linear(*exact)
    towards = random(1, tokens, outputs, dtype=dtype).detach()
    found.backward(towards)
    wanted.backward(towards.double())
    assert_same([found, *(each.grad for each in given)], [wanted, *(each.grad for each in exact)], dtype)


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="needs oneDNN")
def test_a_weight_of_another_order_is_multiplied_by_either_library(monkeypatch: pytest.MonkeyPatch) -> None:
    states, weight = random(30, 16), random(16, 24)
    exact = exactly(states, weight)
    monkeypatch.setattr(products, "onednn_rows", lambda: 0)
    found, wanted = products.multiply(states, weight), exact[0] @ exact[1]
    found.sin().sum().backward()
    wanted.sin().sum().backward()
    assert_same([found, states.grad, weight.grad], [wanted, *(each.grad for each in exact)], torch.float32)
    monkeypatch.setenv("BERT_KERNELS", "off")
    assert products.multiply(states, weight) is NotImplemented
