"""Masking: which tokens are masked, and what replaces them (BERT section 3.1, task 1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertcli.data.packing.keyed import uniform
from bertcli.data.pretraining.draws import Draws
from bertcli.data.text.tokenization import WordPiece

Ints = NDArray[np.int64]
KEPT = -1  # the replacement of a masked token that stays as it is


@dataclass(frozen=True)
class MaskingRules:
    """The options of masking, and what it needs of the vocabulary."""

    vocab_ids: list[int]  # a random replacement is any of these, special tokens included, as in the original
    is_continuation: list[bool]  # for each id, whether it is a `##` piece
    mask_id: int
    cls_id: int
    sep_id: int
    masked_lm_prob: float
    max_predictions_per_seq: int
    whole_word_mask: bool

    @classmethod
    def of(cls, tokenizer: WordPiece, prob: float, max_predictions: int, whole_word: bool) -> MaskingRules:
        """The rules of a tokenizer and the options."""
        is_continuation = [False] * tokenizer.size
        for token, index in tokenizer.vocab.items():
            is_continuation[index] = token.startswith("##")
        mask, first, sep = (tokenizer.special(name) for name in ("mask", "cls", "sep"))
        return cls(list(tokenizer.vocab.values()), is_continuation, mask, first, sep, prob, max_predictions, whole_word)

    def num_to_predict(self, length: int) -> int:
        """Number of tokens to mask: the share of all tokens, [CLS] and [SEP] included, rounded half to even."""
        return min(self.max_predictions_per_seq, max(1, round(length * self.masked_lm_prob)))


Masks = tuple[list[int], list[int]]  # positions and replacements


def draw_masks(length: int, first_length: int, ids: list[int], rules: MaskingRules, draws: Draws) -> Masks:
    """Choose the tokens of an instance to mask and their replacements.

    Equal to create_masked_lm_predictions of create_pretraining_data.py, draw for draw: 80 % [MASK], 10 % a random
    token, 10 % unchanged, decided for each piece on its own even with whole-word masking. The instance has `length` tokens,
    `first_length` of them in `[CLS] A [SEP]`; its `ids` are read only with whole-word masking.
    Returns the positions in the order drawn, and the new token of each, or KEPT.
    """
    places = [*range(1, first_length - 1), *range(first_length, length - 1)]
    wanted = rules.num_to_predict(length)
    if rules.whole_word_mask:
        chosen = _choose_words(places, ids, rules, wanted, draws)
    else:
        draws.shuffle(places)
        chosen = places[:wanted]
    replacements, last = [], len(rules.vocab_ids) - 1
    for _ in chosen:
        if draws.random() < 0.8:
            replacements.append(rules.mask_id)
        else:
            replacements.append(KEPT if draws.random() < 0.5 else rules.vocab_ids[draws.randint(0, last)])
    return chosen, replacements


def _choose_words(places: list[int], ids: list[int], rules: MaskingRules, wanted: int, draws: Draws) -> list[int]:
    """Take random words until enough tokens are masked, skipping those that do not fit.

    As in the original, `##` pieces at the start of a second segment that was cut at its front join the last word of
    the first segment, across [SEP].
    """
    words: list[list[int]] = []
    for place in places:
        if words and rules.is_continuation[ids[place]]:
            words[-1].append(place)
        else:
            words.append([place])
    draws.shuffle(words)
    chosen: list[int] = []
    for word in words:
        chosen += word if len(chosen) + len(word) <= wanted else []
    return chosen


def mask_batch(ids: Ints, rows: Ints, lengths: Ints, rules: MaskingRules, key: int) -> tuple[Ints, Ints]:
    """Mask all sequences of a packed batch by the rules of `draw_masks`; masks depend on `key` and row alone.

    `ids`, [T], are changed in place; `rows`, [N], are the rows of the data and `lengths`, [N], their tokens.
    Returns the masked positions in the packed batch, ascending, [M], and their original ids, [M].
    """
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
    replaced = np.where(draw < 0.9, np.asarray(rules.vocab_ids)[other], originals)
    ids[positions] = np.where(draw < 0.8, rules.mask_id, replaced)
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
