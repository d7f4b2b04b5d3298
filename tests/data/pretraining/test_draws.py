"""Random numbers are those of Python's `random`."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from bertcli.data.pretraining.draws import Draws


@given(st.integers(0, 2**40), st.lists(st.integers(1, 3000), min_size=1, max_size=30))
@settings(max_examples=40)
def test_draws_are_those_of_pythons_random(seed: int, limits: list[int]) -> None:
    ours, pythons = Draws(seed), random.Random(seed)
    for limit in limits:
        assert ours.random() == pythons.random()
        assert ours.randint(1, limit) == pythons.randint(1, limit)
        mine, theirs = list(range(limit)), list(range(limit))
        ours.shuffle(mine)
        pythons.shuffle(theirs)
        assert mine == theirs
        assert list(ours.coins(limit)) == [pythons.random() < 0.5 for _ in range(limit)]
