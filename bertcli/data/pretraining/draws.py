"""Random numbers equal to Python's `random`, drawn faster."""

import random
from collections.abc import MutableSequence
from functools import cached_property
from typing import Any

import numpy as np

HEADS = b"\1"  # `random() < 0.5`: the top bit of the first of its two words is 0
IS_HEADS = bytes(top < 128 for top in range(256))


class Draws(random.Random):
    """`random.Random`; every method draws what the method of that name draws (CPython 3.2 and later)."""

    def seed(self, a: int | None = None, version: int = 2) -> None:  # type: ignore[override]
        """Start again from a seed."""
        super().seed(a, version)
        self.numpy_seed = (a or 0) % 2**32

    @cached_property
    def numpy(self) -> np.random.RandomState:
        """NumPy's generator, from which ALBERT's and XLNet's code draw too; the original leaves its seed to chance."""
        return np.random.RandomState(self.numpy_seed)

    def coins(self, count: int) -> bytes:
        """Draw `random() < 0.5` `count` times: a byte each, 1 where it is true."""
        return self.getrandbits(64 * count).to_bytes(8 * count, "little")[3::8].translate(IS_HEADS)

    def randint(self, a: int, b: int) -> int:
        """Draw a whole number in [a, b]: bits of one word, again until they fit."""
        while (drawn := self.getrandbits((b - a + 1).bit_length())) > b - a:
            pass
        return a + drawn

    def shuffle(self, x: MutableSequence[Any]) -> None:
        """Shuffle in place."""
        draw = self.getrandbits
        for index in range(len(x) - 1, 0, -1):
            bits = (index + 1).bit_length()
            while (other := draw(bits)) > index:
                pass
            x[index], x[other] = x[other], x[index]
