"""The words of a text, as the baselines read it: letters and digits together, every other sign alone."""

import re

WORD = r"\w+|[^\w\s]"
_WORD = re.compile(WORD)


def words_of(text: str) -> list[str]:
    """The words of a text, in lower case."""
    return _WORD.findall(text.lower())


def word_places(text: str) -> list[tuple[int, int]]:
    """Start and end of each word, in characters."""
    return [match.span() for match in _WORD.finditer(text)]
