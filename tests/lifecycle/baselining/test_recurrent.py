"""The network of the LSTM baselines is an LSTM over each text alone."""

import numpy as np
import pytest
import torch
from torch import nn

from bertcli.lifecycle.baselining.methods.recurrent import Recurrent, Shape


@pytest.mark.parametrize("is_bidirectional", [False, True])
def test_a_batch_of_texts_has_the_states_and_gradients_of_each_text_alone(is_bidirectional: bool) -> None:
    draw, units = np.random.default_rng(0), 6
    texts = [draw.integers(0, 20, size) for size in (1, 7, 3, 12)]
    network = Recurrent(Shape(20, 5, units, is_bidirectional, True, 1, 3), seed=1, dropout=0.0)
    alone = nn.LSTM(5, units, bidirectional=is_bidirectional, batch_first=True)
    for own, weights in zip(alone.parameters(), network.directions.parameters(), strict=True):
        own.data.copy_(weights)
    expected = torch.cat([alone(network.vectors(torch.from_numpy(ids)))[0] for ids in texts])
    expected = network.head(expected)
    found = network([[[ids]] for ids in texts])
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)
    gradients = torch.autograd.grad(found.square().sum(), [*network.directions.parameters(), network.vectors.weight])
    others = torch.autograd.grad(expected.square().sum(), [*alone.parameters(), network.vectors.weight])
    for own, other in zip(gradients, others, strict=True):
        torch.testing.assert_close(own, other, atol=1e-5, rtol=1e-4)
