"""How well a vocabulary covers text: the share of unknown words or tokens, and tokens per word."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bertcli.data.packing.ragged import Ints
    from bertcli.data.text.tokenization import WordPiece

LINES_AT_ONCE = 1000
MANY_UNKNOWN = 0.02  # of the tokens, from which on it is said


@dataclass(frozen=True)
class Unknown:
    """How many of the tokens of texts are [UNK]; the special tokens around a text are not counted."""

    count: int = 0
    of_tokens: int = 0

    def __add__(self, other: Unknown) -> Unknown:
        """The sum of both."""
        return Unknown(self.count + other.count, self.of_tokens + other.of_tokens)

    @property
    def share(self) -> float:
        """The share of the tokens that are [UNK]."""
        return self.count / max(1, self.of_tokens)

    def __str__(self) -> str:
        """The share in words, or nothing if it is small."""
        words = f"{100 * self.share:.0f} % of the tokens are [UNK], unknown to the vocabulary"
        return words if self.share >= MANY_UNKNOWN else ""


def count_unknown(chunks: Iterable[Ints], tokenizer: WordPiece) -> Unknown:
    """Count the unknown tokens in chunks of encoded texts."""
    unk, cls, sep = (tokenizer.special(name) for name in ("unk", "cls", "sep"))
    found = (Unknown(int((ids == unk).sum()), int(((ids != cls) & (ids != sep)).sum())) for ids in chunks)
    return sum(found, Unknown())


@dataclass(frozen=True)
class Coverage:
    """Counts of words as BasicTokenizer splits them: a punctuation mark or a Chinese character is a word of its own."""

    lines: int
    words: int
    unknown_percent: float  # of the words: those that become [UNK]
    tokens_per_word: float

    def __str__(self) -> str:
        """Both figures, for a message."""
        return f"{self.unknown_percent:.3f} % unknown words, {self.tokens_per_word:.3f} tokens per word"


def measure_coverage(texts: Iterable[str], tokenizer: WordPiece) -> Coverage:
    """Tokenize lines of text and count; all figures of text without words are 0."""
    lines = words = unknown = tokens = 0
    rest = iter(texts)
    while chunk := list(islice(rest, LINES_AT_ONCE)):
        lines += len(chunk)
        for encoding in tokenizer.encode(chunk):
            words += len(set(encoding.word_ids))
            unknown += encoding.ids.count(tokenizer.special("unk"))
            tokens += len(encoding.ids)
    return Coverage(lines, words, round(100 * unknown / max(words, 1), 4), round(tokens / max(words, 1), 4))
