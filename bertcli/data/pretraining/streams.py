"""XLNet's rows: a text as streams in both directions, cut into rows that continue each other (data_utils.py)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertcli.data.pretraining.draws import Draws
from bertcli.data.text.corpus import Corpus

# L tokens of a row, V vocabulary

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
# Marks that are a token of their own, which begins a word, as the original has them.
MARKS = frozenset('!"#$%&"()*+,-./:;?@[\\]^_`{|}~')
STREAMS = 2  # of a text: one in each direction
LONGEST_SPAN = 5  # tokens that are predicted together, at most
SHARES = 1 / np.arange(1, LONGEST_SPAN + 1)  # of spans of one token, of two, ...
CUMULATED = np.cumsum(SHARES / SHARES.sum())
CUMULATED /= CUMULATED[-1]


def begins_word(piece: str) -> bool:
    """Whether a piece is the first of a word (_is_start_piece)."""
    return piece.startswith(("▁", "<")) or piece in MARKS


@dataclass(frozen=True)
class StreamRules:
    """How a stream of text is cut into rows, and which of their tokens are predicted."""

    sep_id: int
    cls_id: int
    begins: Flags  # [V] for each token, whether it begins a word
    row_length: int  # L
    reuse_length: int  # tokens of a row that the row after it continues; half of L in the original
    predictions: int | None  # of a row; None: about `beta` of `alpha` tokens
    streams: int = STREAMS  # parts of the text; in both directions, the second half are the first read backwards
    in_both_directions: bool = True
    alpha: int = 6
    beta: int = 1


@dataclass(frozen=True)
class StreamRow:
    """`reused A <sep> B <sep> <cls>`, in the direction that it is read in."""

    input_ids: Ints  # [L]
    token_type_ids: Ints  # [L] 0 up to the first <sep>, 1 up to the second, 2
    is_masked: Flags  # [L] to be predicted; <sep> and <cls> among them are not
    follows: bool  # whether B follows A, which the original records and does not learn


def stream_of(corpus: Corpus, end: int | None) -> tuple[Ints, Flags]:
    """All tokens of a corpus, with the token `end` after each document, and their sentences, which are lines.

    The sentence is a flag that changes where the next one begins; the end of a document is of its last sentence.
    """
    ids, sentences = [], []
    line = 0
    for first, last in corpus.documents:
        bounds = np.asarray(corpus.bounds[first : last + 1])
        lengths = np.diff(bounds)
        lengths[-1] += end is not None
        ids += [corpus.tokens[bounds[0] : bounds[-1]].astype(np.int64), *([] if end is None else [np.array([end])])]
        sentences.append(np.repeat((line + np.arange(len(lengths))) % 2 == 0, lengths))
        line += len(lengths)
    return np.concatenate(ids), np.concatenate(sentences)


def make_rows(
    ids: Ints, sentences: Flags, rules: StreamRules, sampler: np.random.RandomState, draws: Draws
) -> list[StreamRow]:
    """Cut a text into rows: the first of each stream, then the second of each, until one of the streams ends.

    `sentences` changes where a sentence ends. Equal to create_tfrecords of data_utils.py, draw for draw: `sampler` is
    numpy's and `draws` Python's global generator.
    """
    count = rules.streams // 2 if rules.in_both_directions else rules.streams
    streams = [_Stream(part, flags) for part, flags in zip(_cut(ids, count), _cut(sentences, count), strict=True)]
    streams += [stream.backwards() for stream in streams] if rules.in_both_directions else []
    rows: list[StreamRow] = []
    for start in range(0, len(ids) // count - rules.row_length + 1, rules.reuse_length):
        batch: list[StreamRow] = []
        for number, stream in enumerate(streams):
            pair = stream.pair(start + rules.reuse_length, rules.row_length - rules.reuse_length - 3, draws)
            if pair is None:
                return rows
            reused = stream.ids[start : start + rules.reuse_length]
            first, second, follows = pair
            ids_and_masks = _row((reused, first, second), rules, sampler, is_backwards=number >= count)
            batch.append(StreamRow(*ids_and_masks, follows))
        rows += batch
    return rows


def _cut(values: NDArray[Any], count: int) -> list[NDArray[Any]]:
    """Parts of equal length; what is left over is dropped."""
    length = len(values) // count
    return list(values[: count * length].reshape(count, length))


def _row(
    parts: tuple[Ints, Ints, Ints], rules: StreamRules, sampler: np.random.RandomState, is_backwards: bool
) -> tuple[Ints, Ints, Flags]:
    reused, first, second = parts
    ids = np.concatenate([reused, first, [rules.sep_id], second, [rules.sep_id, rules.cls_id]])
    types = np.repeat([0, 1, 2], [len(reused) + len(first) + 1, len(second) + 1, 1])
    return ids, types, sample_row(ids, rules, sampler, is_backwards)


def sample_row(ids: Ints, rules: StreamRules, sampler: np.random.RandomState, is_backwards: bool) -> Flags:
    """Choose what to predict of a row, [L]: half of it among the tokens that the next row continues, half among the others."""
    parts, wanted = np.split(ids, [rules.reuse_length]), rules.predictions
    goals = (None, None) if wanted is None else (-(-wanted // 2), wanted // 2)
    masks = [sample_mask(part, rules, sampler, goal, is_backwards) for part, goal in zip(parts, goals, strict=True)]
    return np.concatenate(masks)


class _Stream:
    """A part of a text that is read in one direction."""

    def __init__(self, ids: Ints, sentences: Flags) -> None:
        self.ids, self.sentences = ids, sentences
        self.bounds = (np.flatnonzero(sentences[1:] != sentences[:-1]) + 1).tolist()  # where sentences begin

    def backwards(self) -> _Stream:
        """The same, read backwards."""
        return _Stream(self.ids[::-1], self.sentences[::-1])

    def pair(self, begin: int, length: int, draws: Draws) -> tuple[Ints, Ints, bool] | None:
        """Two texts of `length` tokens together, the first from `begin` on, and whether the second follows it.

        The first ends where a sentence does. None where the stream ends too soon. (_split_a_and_b)
        """
        size = len(self.ids)
        if begin + length >= size:
            return None
        first_bound, last_bound = bisect_right(self.bounds, begin), bisect_left(self.bounds, begin + length)
        within = self.bounds[first_bound:last_bound]
        end = self.bounds[last_bound] if last_bound < len(self.bounds) else size
        follows = bool(within) and not draws.random() < 0.5
        if follows:
            a_end = draws.choice(within)
            b_begin, b_end = a_end, end
        else:
            a_end = draws.choice(within) if within else end
            b_begin, b_end = self._elsewhere(max(1, length - (a_end - begin)), draws)
        # The longer text, or of two equally long ones the second, loses tokens at its end.
        a_length, b_length = a_end - begin, b_end - b_begin
        if a_length + b_length > length:
            a_length = min(a_length, max(length - b_length, (length + 1) // 2))
            b_length = length - a_length
        if begin + a_length >= size or b_begin + b_length >= size:
            return None
        return self.ids[begin : begin + a_length], self.ids[b_begin : b_begin + b_length], follows

    def _elsewhere(self, length: int, draws: Draws) -> tuple[int, int]:
        """A random place of the stream, widened to whole sentences."""
        last = len(self.ids) - 1
        begin = draws.randint(0, last - length)
        before, after = bisect_right(self.bounds, begin), bisect_left(self.bounds, begin + length)
        end = self.bounds[after] if after < len(self.bounds) else last
        return self.bounds[before - 1] if before else 0, min(end, last)


def sample_mask(
    ids: Ints, rules: StreamRules, sampler: np.random.RandomState, goal: int | None, is_backwards: bool = False
) -> Flags:
    """Choose spans to predict among some tokens, `goal` tokens of them if given: [tokens], True for the chosen ones.

    A span of n tokens begins with a word, in a stretch of 6 n tokens. A span that reaches the last token is left out; what
    is missing of the goal are random single tokens. (_sample_mask, whose n-grams are of pieces and not of words)
    """
    starts = np.flatnonzero(rules.begins[ids[::-1] if is_backwards else ids]).tolist()
    length, position, mask = len(ids), 0, np.zeros(len(ids), bool)
    left = inf if goal is None else goal
    while position < length and left > 0:
        span = int(min(CUMULATED.searchsorted(sampler.random_sample(), side="right") + 1, left))
        stretch = span * rules.alpha // rules.beta
        before = int(sampler.randint(0, stretch))
        place = bisect_left(starts, position + before)
        if place == len(starts) or starts[place] + span >= length:
            break
        mask[starts[place] : starts[place] + span] = True
        left -= span
        position = starts[place] + span + stretch - before
    while 0 < left < inf:
        if not mask[at := int(sampler.randint(length))]:
            mask[at], left = True, left - 1
    return mask[::-1] if is_backwards else mask
