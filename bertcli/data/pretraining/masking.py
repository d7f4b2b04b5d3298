"""Masking: which tokens are masked, and what replaces them (BERT section 3.1, task 1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertcli.data.packing.keyed import uniform
from bertcli.data.pretraining.draws import Draws
from bertcli.data.text.tokenization import WordPiece

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


def draw_masks(
    length: int, first_length: int, ids: list[int], rules: MaskingRules, draws: Draws
) -> tuple[list[int], list[int]]:
    """Choose the tokens of an instance to mask and their replacements.

    Equal to create_masked_lm_predictions of create_pretraining_data.py, draw for draw: 80 % [MASK], 10 % a random
    token, 10 % unchanged, decided for each piece on its own even with whole-word masking.

    Args:
        length: tokens of the instance, `[CLS] A [SEP] B [SEP]` or `[CLS] A [SEP]`.
        first_length: tokens of `[CLS] A [SEP]`.
        ids: its tokens; read only with whole-word masking.
        rules: the rules of masking.
        draws: the generator.

    Returns:
        The positions in the order they were drawn, and for each the new token, or KEPT.
    """
    places = [*range(1, first_length - 1), *range(first_length, length - 1)]
    wanted = rules.num_to_predict(length)
    if rules.whole_word_mask:
        words = word_candidates(places, ids, rules)
        order = list(range(len(words)))
        draws.shuffle(order)
        chosen = _choose_words([words[index] for index in order], wanted)
    else:
        draws.shuffle(places)
        chosen = places[:wanted]
    return chosen, _replacements(len(chosen), rules, draws)


def word_candidates(places: list[int], ids: list[int], rules: MaskingRules) -> list[list[int]]:
    """Group the positions of each word's pieces.

    As in the original, `##` pieces at the start of a second segment that was cut at its front join the last word of
    the first segment, across [SEP].
    """
    candidates: list[list[int]] = []
    for place in places:
        if candidates and rules.is_continuation[ids[place]]:
            candidates[-1].append(place)
        else:
            candidates.append([place])
    return candidates


def _choose_words(candidates: list[list[int]], num_to_predict: int) -> list[int]:
    """Take whole words until enough tokens are masked, skipping those that do not fit."""
    chosen: list[int] = []
    for candidate in candidates:
        if len(chosen) >= num_to_predict:
            break
        if len(chosen) + len(candidate) <= num_to_predict:
            chosen += candidate
    return chosen


def _replacements(count: int, rules: MaskingRules, draws: Draws) -> list[int]:
    """The replacement of each masked token, drawn independently: [MASK], KEPT, or any token."""
    last = len(rules.vocab_ids) - 1
    return [
        rules.mask_id
        if draws.random() < 0.8
        else KEPT
        if draws.random() < 0.5
        else rules.vocab_ids[draws.randint(0, last)]
        for _ in range(count)
    ]


def mask_batch(
    ids: NDArray[np.int64], rows: NDArray[np.int64], lengths: NDArray[np.int64], rules: MaskingRules, key: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Mask all sequences of a packed batch by the same rules as `draw_masks`; masks depend on `key` and row alone.

    Args:
        ids: the tokens of the sequences end to end, [T]; changed in place.
        rows: which row of the data each sequence is, [N].
        lengths: tokens of each sequence, [N].
        rules: the rules of masking.
        key: the random key of the step.

    Returns:
        The masked positions in the packed batch, ascending, [M], and their original ids, [M].
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


def _fitting(pieces: NDArray[np.int64], sequence: NDArray[np.int64], budget: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether each word is taken when those of a sequence are taken in order wherever they fit into its remaining budget."""
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
