"""Masking: which tokens are masked, and what replaces them (BERT section 3.1, task 1)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from bertcli.data.packing.keyed import derive, uniform
from bertcli.data.pretraining.draws import Draws
from bertcli.data.text.tokenization import WordPiece
from bertcli.errors import UserError

Ints = NDArray[np.int64]
KEPT = -1  # the replacement of a masked token that stays as it is
SHARES = "80,10,10"  # of [MASK], the same token, a random token
SPAN_END, LONGEST_SPAN = 0.2, 10  # the probability that a span ends with a word, and its words at most (SpanBERT)


def parse_shares(text: str) -> tuple[int, int, int]:
    """The percentages of chosen tokens that become [MASK], stay the same, become random. Raises UserError if they are not."""
    try:
        mask, same, other = (int(share) for share in text.split(","))
    except ValueError:
        mask = same = other = -1
    if min(mask, same, other) < 0 or mask + same + other != 100:
        what = f"--mask-shares {text} is not three percentages that sum to 100: [MASK], the same token, a random one."
        raise UserError(what, f"Give them separated by commas: --mask-shares {SHARES}")
    return mask, same, other


@dataclass(frozen=True)
class MaskingRules:
    """The options of masking, and what it needs of the vocabulary."""

    vocab_ids: list[int]  # a random replacement is any of these, special tokens included, as in the original
    is_continuation: list[bool]  # for each id, whether it is a piece of a word that is not its first, such as `##s`
    mask_id: int
    cls_id: int
    sep_id: int
    masked_lm_prob: float
    max_predictions_per_seq: int
    whole_word_mask: bool
    shares: tuple[int, int, int]  # percentages of [MASK], the same token, a random token
    span_mask: bool
    special_ids: list[int]
    ngram_mask: int = 0  # the most words of an n-gram that is masked whole, as in ALBERT; 0: none
    favors_longer: bool = False  # n-grams of n words are drawn with the weights of 1 / n, else of these in reverse
    permutes: bool = False  # as many other tokens as are masked change places among themselves

    @classmethod
    def of(
        cls,
        tokenizer: WordPiece,
        prob: float,
        max_predictions: int,
        whole_word: bool,
        shares: str = SHARES,
        spans: bool = False,
    ) -> MaskingRules:
        """The rules of a tokenizer and the options. Raises UserError if the shares do not sum to 100."""
        mask, first, sep, pad, unk = (tokenizer.special(name) for name in ("mask", "cls", "sep", "pad", "unk"))
        of_vocabulary = (list(tokenizer.vocab.values()), tokenizer.continues_word, mask, first, sep)
        of_options = (prob, max_predictions, whole_word, parse_shares(shares), spans)
        return cls(*of_vocabulary, *of_options, [first, pad, sep, unk, mask])

    @property
    def unk_id(self) -> int:
        """The id of [UNK]."""
        return self.special_ids[3]

    @cached_property
    def replacing_ids(self) -> NDArray[np.int64]:
        """The ids of all tokens but special ones, which [MASK] does not count as: fairseq's random tokens."""
        return np.setdiff1d(self.vocab_ids, [each for each in self.special_ids if each != self.mask_id])

    @property
    def reads_words(self) -> bool:
        """Whether the choice of tokens depends on the text."""
        return self.whole_word_mask or self.span_mask or self.ngram_mask > 0

    @cached_property
    def ngram_shares(self) -> list[float]:
        """The probability of an n-gram of at most n words, for n from 1 (ALBERT, section 4.1)."""
        weights = 1.0 / np.arange(1, self.ngram_mask + 1)
        weights = weights[::-1] / weights.sum() if self.favors_longer else weights / weights.sum()
        sums = (weights / weights.sum()).cumsum()
        return list((sums / sums[-1]).tolist())

    def num_to_predict(self, length: int) -> int:
        """Number of tokens to mask: the share of all tokens, [CLS] and [SEP] included, rounded half to even."""
        return min(self.max_predictions_per_seq, max(1, round(length * self.masked_lm_prob)))


Masks = tuple[list[int], list[int]]  # positions and replacements


def draw_masks(length: int, first_length: int, ids: list[int], rules: MaskingRules, draws: Draws) -> Masks:
    """Choose the tokens of an instance to mask and their replacements.

    Equal to create_masked_lm_predictions of create_pretraining_data.py, draw for draw: 80 % [MASK], 10 % a random
    token, 10 % unchanged, decided for each piece on its own even with whole-word masking. For spans it is decided once a
    span, as in SpanBERT. The instance has `length` tokens, `first_length` of them in `[CLS] A [SEP]`; its `ids` are read
    only with whole-word masking and for spans.
    Returns the positions in the order drawn, and the new token of each, or KEPT.
    """
    places = [*range(1, first_length - 1), *range(first_length, length - 1)]
    wanted = rules.num_to_predict(length)
    if rules.span_mask:
        segments = (places[: first_length - 2], places[first_length - 2 :])
        spans = _choose_spans([_words(segment, ids, rules) for segment in segments], wanted, draws)
        replaced = (_replace(len(span), rules, draws) for span in spans)
        return [*chain.from_iterable(spans)], [*chain.from_iterable(replaced)]
    if rules.ngram_mask:
        places = [place for place in places if ids[place] not in (rules.cls_id, rules.sep_id)]
        return _draw_ngrams(places, ids, rules, wanted, draws)
    if rules.whole_word_mask:
        chosen = _choose_words(places, ids, rules, wanted, draws)
    else:
        draws.shuffle(places)
        chosen = places[:wanted]
    return chosen, [_replace(1, rules, draws)[0] for _ in chosen]


def _replace(count: int, rules: MaskingRules, draws: Draws) -> list[int]:
    """The new tokens of `count` chosen ones, which are all [MASK], all random, or all KEPT."""
    mask, same, other = rules.shares
    if draws.random() < mask / 100:
        return [rules.mask_id] * count
    if draws.random() < same / ((same + other) or 1):
        return [KEPT] * count
    return [rules.vocab_ids[draws.randint(0, len(rules.vocab_ids) - 1)] for _ in range(count)]


def _words(places: list[int], ids: list[int], rules: MaskingRules) -> list[list[int]]:
    """The places of each word."""
    words: list[list[int]] = []
    for place in places:
        if words and rules.is_continuation[ids[place]]:
            words[-1].append(place)
        else:
            words.append([place])
    return words


def _choose_spans(segments: list[list[list[int]]], wanted: int, draws: Draws) -> list[list[int]]:
    """Take spans of words from random places, their lengths geometric, until enough tokens are masked; the last is cut.

    `segments` has the words of A and of B, which no span crosses. A span ends before a word that is masked already.
    """
    words = [*chain(segments[0], [[]], segments[1])]  # an empty one between the segments, where a span ends
    free = {number for number, word in enumerate(words) if word}
    spans: list[list[int]] = []
    while free and wanted > 0:
        number, left = sorted(free)[draws.randint(0, len(free) - 1)], LONGEST_SPAN
        spans.append([])
        while number in free and left and wanted > 0:
            free.remove(number)
            spans[-1] += words[number][:wanted]
            wanted -= len(words[number][:wanted])
            number, left = number + 1, 0 if draws.random() < SPAN_END else left - 1
    return spans


def _choose_words(places: list[int], ids: list[int], rules: MaskingRules, wanted: int, draws: Draws) -> list[int]:
    """Take random words until enough tokens are masked, skipping those that do not fit.

    As in the original, `##` pieces at the cut front of a second segment join the last word of the first, across [SEP].
    """
    words = _words(places, ids, rules)
    draws.shuffle(words)
    chosen: list[int] = []
    for word in words:
        chosen += word if len(chosen) + len(word) <= wanted else []
    return chosen


def _draw_ngrams(places: list[int], ids: list[int], rules: MaskingRules, wanted: int, draws: Draws) -> Masks:
    """Mask n-grams of words; equal to create_masked_lm_predictions of ALBERT's create_pretraining_data.py, draw for draw."""
    if rules.masked_lm_prob == 0:
        return [], []
    words = _words(places, ids, rules) if rules.whole_word_mask else [[place] for place in places]
    order = [*range(len(words))]
    draws.shuffle(order)
    chosen = _choose_ngrams(words, order, rules, wanted, draws)
    replacements = [_replace(1, rules, draws)[0] for _ in chosen]
    draws.shuffle(order)
    if rules.permutes:
        moved = sorted(_choose_ngrams(words, order, rules, wanted, draws, chosen))
        sources = moved.copy()
        draws.shuffle(sources)
        chosen, replacements = chosen + moved, replacements + [ids[source] for source in sources]
    return chosen, replacements


def _choose_ngrams(
    words: list[list[int]],
    order: list[int],
    rules: MaskingRules,
    wanted: int,
    draws: Draws,
    covered: Collection[int] = (),
) -> list[int]:
    """Take n-grams that begin with the words in this order, or shorter ones that fit, until enough tokens are masked.

    An n-gram with a token that is masked already is left out whole, but its length is drawn.
    """
    chosen: list[int] = []
    taken = set(covered)
    for first in order:
        if len(chosen) >= wanted:
            break
        for count in range(bisect_right(rules.ngram_shares, draws.numpy.random_sample()) + 1, 0, -1):
            places = [*chain.from_iterable(words[first : first + count])]
            if len(chosen) + len(places) <= wanted:
                if taken.isdisjoint(places):
                    chosen += places
                    taken.update(places)
                break
    return chosen


def mask_batch(ids: Ints, rows: Ints, lengths: Ints, rules: MaskingRules, key: int) -> tuple[Ints, Ints]:
    """Mask all sequences of a packed batch by the rules of `draw_masks`; masks depend on `key` and row alone.

    `ids`, [T], are changed in place; `rows`, [N], are the rows of the data and `lengths`, [N], their tokens.
    Returns the masked positions in the packed batch, ascending, [M], and their original ids, [M].
    """
    if rules.span_mask or rules.ngram_mask:
        return mask_rows(ids, rows, lengths, rules, key)
    sequence = np.repeat(np.arange(len(lengths)), lengths)  # [T]
    place = np.arange(len(ids)) - np.repeat(np.cumsum(lengths) - lengths, lengths)  # [T] within its sequence
    maskable = (ids != rules.cls_id) & (ids != rules.sep_id)
    word = np.arange(len(ids))  # [T] where the token's word starts
    if rules.whole_word_mask:
        starts = maskable & ~np.asarray(rules.is_continuation)[ids]
        word = np.maximum.accumulate(np.where(starts | (place == 0), word, 0))
    row = rows[sequence]
    priority = uniform(key, row, place)[word]  # [T] one draw a word
    pieces = np.bincount(word, weights=maskable, minlength=len(ids)).astype(np.int64)  # [T]
    words = np.flatnonzero(pieces)
    words = words[np.lexsort((priority[words], sequence[words]))]  # in the order drawn
    budget = np.array([rules.num_to_predict(int(length)) for length in lengths])
    chosen = np.zeros(len(ids), dtype=bool)
    chosen[words[_fitting(pieces[words], sequence[words], budget)]] = True
    positions = np.flatnonzero(chosen[word] & maskable)  # [M]
    originals = ids[positions].copy()  # [M]
    draw = uniform(key + 1, row[positions], place[positions])
    other = (uniform(key + 2, row[positions], place[positions]) * len(rules.vocab_ids)).astype(np.int64)
    mask, same, _ = rules.shares
    replaced = np.where(draw < (100 - same) / 100, np.asarray(rules.vocab_ids)[other], originals)
    ids[positions] = np.where(draw < mask / 100, rules.mask_id, replaced)
    return positions, originals


def mask_rows(
    ids: Ints, rows: Ints, lengths: Ints, rules: MaskingRules, key: int, draw: Callable[..., Masks] = draw_masks
) -> tuple[Ints, Ints]:
    """As `mask_batch`, with masks that are drawn a sequence at a time, such as spans."""
    drawn: dict[int, int] = {}  # the replacement at each masked position
    start = 0
    for row, length in zip(rows.tolist(), lengths.tolist(), strict=True):
        own = ids[start : start + length].tolist()
        masks = draw(length, own.index(rules.sep_id) + 1, own, rules, Draws(derive(key, row)))
        drawn |= {start + place: replacement for place, replacement in zip(*masks, strict=True)}
        start += length
    positions = np.array(sorted(drawn), dtype=np.int64)
    originals = ids[positions].copy()
    replacements = np.array([drawn[position] for position in positions.tolist()], dtype=np.int64)
    ids[positions] = np.where(replacements == KEPT, originals, replacements)
    return positions, originals


def _fitting(pieces: Ints, sequence: Ints, budget: Ints) -> NDArray[np.bool_]:
    """Whether each word is taken: the words of a sequence are taken in order if they fit into its remaining budget."""
    room = budget.copy()
    begin = np.searchsorted(sequence, sequence)  # of each word's sequence
    taken = np.zeros(len(pieces), dtype=bool)
    while (open_ := ~taken & (pieces <= room[sequence])).any():
        total = np.cumsum(pieces * open_)
        so_far = total - (total - pieces * open_)[begin]
        fits = open_ & (so_far <= room[sequence])  # up to the first that does not, which is closed in the next round
        room -= np.bincount(sequence, weights=pieces * fits, minlength=len(room)).astype(np.int64)
        taken |= fits
    return taken
