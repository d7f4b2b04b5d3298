"""Python's random numbers, draw for draw, taken from the Mersenne Twister in bulk."""

from __future__ import annotations

import random
from array import array

WORDS_AT_ONCE = 16384
SPARE_WORDS = 4096
SHIFTS = [32 - n.bit_length() for n in range(65536)]


class Draws:
    """The draws of `random.Random(seed)` that the original makes, several times faster.

    `random()`, `randint()` and `shuffle()` give what Python's give, in the same order (CPython 3.2 and later).
    The 32-bit words of the generator lie ready in `words`; the hot loops of masking read them there.
    """

    def __init__(self, seed: int) -> None:
        self._generator = random.Random(seed)
        self.words: array[int] = array("I")
        self.position = 0

    def refill(self) -> None:
        """Make sure that at least `SPARE_WORDS` words lie ready."""
        if len(self.words) - self.position < SPARE_WORDS:
            drawn = self._generator.getrandbits(32 * WORDS_AT_ONCE).to_bytes(4 * WORDS_AT_ONCE, "little")
            self.words = self.words[self.position :] + array("I", drawn)
            self.position = 0

    def random(self) -> float:
        """Draw a number in [0, 1) of 53 bits, from two words."""
        if len(self.words) - self.position < 2:
            self.refill()
        words, position = self.words, self.position
        self.position = position + 2
        return ((words[position] >> 5) * 67108864.0 + (words[position + 1] >> 6)) / 9007199254740992.0

    def randint(self, low: int, high: int) -> int:
        """Draw a whole number in [low, high]."""
        return low + self._below(high - low + 1)

    def shuffle(self, items: list[int]) -> None:
        """Shuffle a list in place."""
        for index in range(len(items) - 1, 0, -1):
            other = self._below(index + 1)
            items[index], items[other] = items[other], items[index]

    def _below(self, limit: int) -> int:
        """Draw from [0, limit): bits of one word, again until they fit."""
        shift = 32 - limit.bit_length()
        while True:
            if self.position == len(self.words):
                self.refill()
            drawn = self.words[self.position] >> shift
            self.position += 1
            if drawn < limit:
                return drawn
