"""A choice of layers takes the hidden states that it names, and combines them."""

import pytest
import torch

from bertcli.models.layers import combine, layer_numbers


@pytest.mark.parametrize(
    ("layers", "of_12", "of_2"),
    [
        ("embeddings", [0], [0]),
        ("second-to-last", [11], [1]),
        ("last", [12], [2]),
        ("sum-last-four", [9, 10, 11, 12], [1, 2]),
        ("concat-last-four", [9, 10, 11, 12], [1, 2]),
        ("weighted-sum-last-four", [9, 10, 11, 12], [1, 2]),
        ("weighted-sum-all", [*range(1, 13)], [1, 2]),
    ],
)
def test_a_choice_takes_its_layers(layers: str, of_12: list[int], of_2: list[int]) -> None:
    assert list(layer_numbers(layers, 12)) == of_12
    assert list(layer_numbers(layers, 2)) == of_2
    states = torch.randn(5, len(of_12), 3)
    if "weighted" in layers:
        weights = torch.randn(len(of_12))
        expected = sum(share * states[:, place] for place, share in enumerate(weights.exp() / weights.exp().sum()))
        assert torch.allclose(combine(states, layers, weights), expected, atol=1e-6)
    elif "sum" in layers:
        assert torch.allclose(combine(states, layers), sum(states.unbind(1)), atol=1e-6)
    else:
        assert torch.equal(combine(states, layers), torch.cat(states.unbind(1), dim=1))
