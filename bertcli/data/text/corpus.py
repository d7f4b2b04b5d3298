"""Tokenized documents end to end."""

import re
import string
from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from bertcli.data.text.tokenization import WordPiece

# Each of these is a token of its own, and a space ends a token: text between them is tokenized once, then looked up.
MARK = re.escape(string.punctuation + "“”‘’—–…")
WORDS_AND_MARKS = re.compile(f"[{MARK}]|[^ {MARK}]+")


@dataclass(frozen=True)
class Corpus:
    """The tokens of all documents; a segment is a line, a document a run of segments.

    Where lines have ends, each ends with [SEP], and one more [SEP], a segment of its own, separates documents.
    """

    tokens: NDArray[np.uint32]  # [T]
    bounds: list[int]  # where each segment starts, and where the last one ends
    documents: list[tuple[int, int]]  # first segment and the one after the last


def tokenize(documents: Iterable[list[str]], tokenizer: WordPiece, ends_lines: bool = False) -> Corpus:
    """Tokenize documents; lines without tokens are dropped, and so are documents without any other line."""
    encode = _by_words(tokenizer) if tokenizer.is_wordpiece else partial(_by_lines, tokenizer)
    end = np.uint32(tokenizer.special("sep")).tobytes() if ends_lines else b""
    tokens, lengths, spans = bytearray(), array("I"), list[tuple[int, int]]()
    for document in documents:
        segments = [segment + end for segment in encode(document) if segment]
        if segments and spans and end:
            tokens += end
            lengths.append(1)
        if segments:
            spans.append((len(lengths), len(lengths) + len(segments)))
        for segment in segments:
            tokens += segment
            lengths.append(len(segment) // 4)
    bounds = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    return Corpus(np.frombuffer(tokens, np.uint32), bounds.tolist(), spans)


def _by_words(tokenizer: WordPiece) -> Callable[[list[str]], list[bytes]]:
    """Encodes lines by words, each of which is tokenized once."""
    known: dict[str, bytes] = {}

    def encode(lines: list[str]) -> list[bytes]:
        words = [WORDS_AND_MARKS.findall(line) for line in lines]
        new = list({word for line in words for word in line if word not in known})
        known.update(zip(new, _by_lines(tokenizer, new), strict=True))
        return [b"".join([known[word] for word in line]) for line in words]

    return encode


def _by_lines(tokenizer: WordPiece, lines: list[str]) -> list[bytes]:
    return [np.asarray(found, np.uint32).tobytes() for found in tokenizer.encode_ids(lines)]
