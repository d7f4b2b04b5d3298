"""How well a vocabulary covers text: the share of unknown words, and tokens per word."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from bertcli.data.text.tokenization import WordPiece

LINES_AT_ONCE = 1000


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
