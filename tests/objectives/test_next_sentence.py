"""Pairs are cut as the original cuts them."""

import json
import random

from conftest import GOLDENS
from hypothesis import given, settings
from hypothesis import strategies as st

from bertcli.data.pretraining.draws import Draws
from bertcli.objectives.next_sentence import truncate_pair


def original_truncation(left: list, right: list, longest: int, draw: random.Random) -> None:
    while len(left) + len(right) > longest:
        longer = left if len(left) > len(right) else right
        if draw.random() < 0.5:
            del longer[0]
        else:
            longer.pop()


@given(st.integers(0, 2**32), st.integers(0, 60), st.integers(0, 60), st.integers(1, 80))
@settings(max_examples=300)
def test_truncation_at_once_equals_truncation_token_by_token(seed: int, a: int, b: int, longest: int) -> None:
    left, right = list(range(a)), list(range(b))
    ours, pythons = Draws(seed), random.Random(seed)
    first, second = truncate_pair((0, a), (0, b), longest, ours)
    original_truncation(left, right, longest, pythons)
    assert (list(range(*first)), list(range(*second))) == (left, right)
    assert ours.random() == pythons.random()


def test_truncation_equals_googles() -> None:
    for unit in json.loads((GOLDENS / "pretraining" / "units.json").read_text())["truncate"]:
        left, right = [f"a{i}" for i in range(unit["a"])], [f"b{i}" for i in range(unit["b"])]
        draws = Draws(unit["seed"])
        first, second = truncate_pair((0, len(left)), (0, len(right)), unit["max_num_tokens"], draws)
        assert (left[slice(*first)], right[slice(*second)]) == (unit["out_a"], unit["out_b"])
        assert draws.random() == unit["rng_after"]
