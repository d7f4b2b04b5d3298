"""Tokenized documents end to end."""

import re
import string
from array import array
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertcli.data.text.tokenization import WordPiece

# Each of these is a token of its own, and a space ends a token: text between them is tokenized once, then looked up.
MARK = re.escape(string.punctuation + "“”‘’—–…")
WORDS_AND_MARKS = re.compile(f"[{MARK}]|[^ {MARK}]+")


@dataclass(frozen=True)
class Corpus:
    """The tokens of all documents; a segment is a line, a document a run of segments."""

    tokens: NDArray[np.uint32]  # [T]
    bounds: list[int]  # where each segment starts, and where the last one ends
    documents: list[tuple[int, int]]  # first segment and the one after the last


def tokenize(documents: Iterable[list[str]], tokenizer: WordPiece) -> Corpus:
    """Tokenize documents; lines without tokens are dropped, and so are documents without any other line."""
    known: dict[str, bytes] = {}
    tokens, lengths, spans = bytearray(), array("I"), []
    for document in documents:
        words = [WORDS_AND_MARKS.findall(line) for line in document]
        new = list({word for line in words for word in line if word not in known})
        ids = (np.asarray(found, np.uint32).tobytes() for found in tokenizer.encode_ids(new))
        known.update(zip(new, ids, strict=True))
        first = len(lengths)
        for line in words:
            if segment := b"".join([known[word] for word in line]):
                tokens += segment
                lengths.append(len(segment) // 4)
        if len(lengths) > first:
            spans.append((first, len(lengths)))
    bounds = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    return Corpus(np.frombuffer(tokens, np.uint32), bounds.tolist(), spans)
