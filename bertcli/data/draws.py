"""Python's random numbers, draw for draw, taken from numpy's Mersenne Twister in bulk."""

from __future__ import annotations

import random

import numpy as np

WORDS_AT_ONCE = 32768
SHUFFLED_AT_ONCE = 4096
EIGHTY_PERCENT = int(0.8 * 2**53)  # exact: 0.8 has 53 bits
HEADS = b"\1"  # `random() < 0.5`, which is whether the top bit of the first word is 0
# What the top byte of a word says, as tables for `bytes.translate`: the hottest loops read bytes, not words.
IS_HEADS = bytes(top < 128 for top in range(256))
MAY_BE_ABOVE_EIGHTY_PERCENT = bytes(top >= EIGHTY_PERCENT >> 45 for top in range(256))
TOP_BITS = [bytes(top >> (8 - bits) for top in range(256)) for bits in range(9)]


class Draws:
    """The draws of `random.Random(seed)` that the original makes, several times faster.

    Every method draws what the same calls of Python's generator draw, in the same order (CPython 3.2 and later).
    """

    def __init__(self, seed: int) -> None:
        _, (*key, position), _ = random.Random(seed).getstate()
        self._generator = np.random.MT19937()
        self._generator.state = {"bit_generator": "MT19937", "state": {"key": np.array(key), "pos": position}}
        self._words = np.empty(0, dtype=np.uint32).data  # drawn already; used up to `_place`
        self._tops = b""  # the top byte of each
        self._place = 0

    def _ready(self, count: int) -> None:
        """Make sure that at least `count` words lie ready."""
        if len(self._tops) - self._place >= count:
            return
        drawn = self._generator.random_raw(max(WORDS_AT_ONCE, count)).astype(np.uint32)
        words = np.concatenate([self._words[self._place :], drawn])
        self._words = words.data
        self._tops = (words >> 24).astype(np.uint8).tobytes()
        self._place = 0

    def _random53(self) -> int:
        """`random()` before its division: 53 bits of two words."""
        self._ready(2)
        place = self._place
        self._place = place + 2
        return self._words[place] >> 5 << 26 | self._words[place + 1] >> 6

    def random(self) -> float:
        """Draw a number in [0, 1)."""
        return self._random53() / 9007199254740992.0

    def coins(self, count: int) -> bytes:
        """Draw `random() < 0.5` so many times: a byte each, 1 where it is."""
        self._ready(2 * count)
        start, self._place = self._place, self._place + 2 * count
        return self._tops[start : self._place : 2].translate(IS_HEADS)

    def run_below_eighty_percent(self, most: int) -> int:
        """Draw `random() < 0.8` until it is not, at most `most` times; return how often it was."""
        self._ready(2 * most)
        done = 0
        while done < most:
            tops = self._tops[self._place : self._place + 2 * (most - done) : 2]
            sure = most - done - len(tops.translate(MAY_BE_ABOVE_EIGHTY_PERCENT).lstrip(b"\0"))
            done += sure
            self._place += 2 * sure
            if done < most:
                if self._random53() >= EIGHTY_PERCENT:
                    break
                done += 1
        return done

    def randint(self, low: int, high: int) -> int:
        """Draw a whole number in [low, high]: bits of one word, again until they fit."""
        limit = high - low + 1
        shift = 32 - limit.bit_length()
        while True:
            self._ready(1)
            drawn = self._words[self._place] >> shift
            self._place += 1
            if drawn < limit:
                return low + drawn

    def shuffle(self, items: list[int]) -> None:
        """Shuffle a list in place."""
        index = len(items) - 1
        while index > 0:  # each round ends where an index needs fewer bits than before
            bits = (index + 1).bit_length()
            bottom = max((1 << bits - 1) - 2, index - SHUFFLED_AT_ONCE)
            while index > bottom:
                index = self._shuffle_down(items, index, bottom, bits)

    def _shuffle_down(self, items: list[int], index: int, bottom: int, bits: int) -> int:
        """Shuffle from `index` down to above `bottom`, as far as some words reach; return the next index."""
        count = 2 * (index - bottom) + 8  # on average an item takes less than two words
        self._ready(count)
        place = self._place
        if bits <= 8:
            drawn: bytes | list[int] = self._tops[place : place + count].translate(TOP_BITS[bits])
        else:
            drawn = (np.asarray(self._words[place : place + count]) >> (32 - bits)).tolist()
        top, rejected = index, 0
        for other in drawn:
            if other > index:
                rejected += 1
                continue
            items[index], items[other] = items[other], items[index]
            index -= 1
            if index == bottom:
                break
        self._place = place + top - index + rejected
        return index
