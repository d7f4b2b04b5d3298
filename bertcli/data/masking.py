"""Masked-LM: which tokens are hidden, and what stands in their place (BERT section 3.1, task 1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertcli.data.draws import HALF, Draws
from bertcli.data.keyed import uniform
from bertcli.data.tokenization import WordPiece

Candidates = list[list[int]]
EIGHTY_PERCENT = int(0.8 * 2**53)  # exact: 0.8 has 53 bits


@dataclass(frozen=True)
class MaskingRules:
    """What masking needs to know of the vocabulary and the options."""

    vocab_ids: list[int]  # a random replacement is any of these, special tokens included, as in the original
    is_continuation: list[bool]  # by id: whether the token is a `##` piece
    mask_id: int
    cls_id: int
    sep_id: int
    masked_lm_prob: float
    max_predictions_per_seq: int
    whole_word_mask: bool

    @classmethod
    def of(cls, tokenizer: WordPiece, prob: float, max_predictions: int, whole_word: bool) -> MaskingRules:
        """Gather the rules from a tokenizer and the options."""
        is_continuation = [False] * tokenizer.size
        for token, index in tokenizer.vocab.items():
            is_continuation[index] = token.startswith("##")
        special = {name: tokenizer.special(name) for name in ("mask", "cls", "sep")}
        return cls(
            list(tokenizer.vocab.values()), is_continuation, special["mask"], special["cls"], special["sep"],
            prob, max_predictions, whole_word,
        )  # fmt: skip

    def num_to_predict(self, length: int) -> int:
        """How many tokens to mask: banker's rounding of the share of all tokens, [CLS] and [SEP] counted."""
        return min(self.max_predictions_per_seq, max(1, round(length * self.masked_lm_prob)))


def mask_tokens(ids: list[int], rules: MaskingRules, draws: Draws) -> tuple[list[int], list[int]]:
    """Mask `ids` in place and return the masked positions, ascending, and the ids that stood there.

    Equal to create_masked_lm_predictions of create_pretraining_data.py, draw for draw: 80 % [MASK], 10 % a random
    token, 10 % unchanged, decided for each piece on its own even with whole-word masking.
    """
    if rules.whole_word_mask:
        order = word_candidates(ids, rules)
        shuffled = list(range(len(order)))
        draws.shuffle(shuffled)
        chosen = _choose_words([order[index] for index in shuffled], rules.num_to_predict(len(ids)))
    else:
        candidates = _maskable(ids, rules)
        draws.shuffle(candidates)
        chosen = candidates[: rules.num_to_predict(len(ids))]
    return _replace(ids, chosen, rules, draws)


def _maskable(ids: list[int], rules: MaskingRules) -> list[int]:
    """Every position but those of [CLS] and [SEP]."""
    candidates: list[int] = []
    start = 0
    for place in sorted(_places(ids, rules.cls_id) + _places(ids, rules.sep_id)):
        candidates += range(start, place)
        start = place + 1
    candidates += range(start, len(ids))
    return candidates


def _places(ids: list[int], token: int) -> list[int]:
    places: list[int] = []
    for _ in range(ids.count(token)):
        places.append(ids.index(token, places[-1] + 1 if places else 0))
    return places


def word_candidates(ids: list[int], rules: MaskingRules) -> Candidates:
    """Group the positions of a word's pieces.

    As in the original, `##` pieces join the last candidate whatever stands between: those at the start of a second
    segment that was cut at its front join the last word of the first segment, across [SEP].
    """
    candidates: Candidates = []
    for position, token in enumerate(ids):
        if token == rules.cls_id or token == rules.sep_id:
            continue
        if candidates and rules.is_continuation[token]:
            candidates[-1].append(position)
        else:
            candidates.append([position])
    return candidates


def _choose_words(candidates: Candidates, num_to_predict: int) -> list[int]:
    """Take whole candidates until enough are masked; one that does not fit is passed over, not an end."""
    chosen: list[int] = []
    for candidate in candidates:
        if len(chosen) >= num_to_predict:
            break
        if len(chosen) + len(candidate) <= num_to_predict:
            chosen += candidate
    return chosen


def _replace(ids: list[int], chosen: list[int], rules: MaskingRules, draws: Draws) -> tuple[list[int], list[int]]:
    """Put [MASK] or another token in place of the chosen ones, each by draws of its own."""
    draws.ready(16 * len(chosen))  # four words each, and more for random tokens, which are drawn until they fit
    words, place = draws.words, draws.position
    originals = {}
    last = len(rules.vocab_ids) - 1
    for position in chosen:
        originals[position] = ids[position]
        first, place = words[place] >> 5 << 26 | words[place + 1] >> 6, place + 2  # `random()` before its division
        if first < EIGHTY_PERCENT:
            ids[position] = rules.mask_id
            continue
        is_other, place = words[place] >= HALF, place + 2
        if is_other:
            draws.position = place
            ids[position] = rules.vocab_ids[draws.randint(0, last)]
            words, place = draws.words, draws.position
    draws.position = place
    positions = sorted(originals)
    return positions, [originals[position] for position in positions]


def mask_batch(
    ids: NDArray[np.int64], rows: NDArray[np.int64], lengths: NDArray[np.int64], rules: MaskingRules, key: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Mask a packed batch anew, by the same rules as `mask_tokens`, all sequences at once.

    Args:
        ids: the tokens of the sequences end to end, [T]; changed in place.
        rows: which row of the data each sequence is, [N].
        lengths: tokens a sequence, [N].
        rules: what may be masked and how much.
        key: of the step; a row is masked alike in whatever company it comes.

    Returns:
        The masked positions in the packed batch, ascending, [M], and the ids that stood there, [M].
    """
    sequence = np.repeat(np.arange(len(lengths)), lengths)  # [T]
    place = np.arange(len(ids)) - np.repeat(np.cumsum(lengths) - lengths, lengths)  # [T] within its sequence
    maskable = (ids != rules.cls_id) & (ids != rules.sep_id)
    word = np.arange(len(ids))  # [T] where the token's candidate starts
    if rules.whole_word_mask:
        starts = maskable & ~np.asarray(rules.is_continuation)[ids]
        word = np.maximum.accumulate(np.where(starts | (place == 0), word, 0))
    row = rows[sequence]
    priority = uniform(key, row, place)[word]  # [T] one draw a candidate
    order = np.lexsort((word, priority, ~maskable, sequence))
    budget = np.array([rules.num_to_predict(int(length)) for length in lengths])
    fits = np.empty(len(ids), dtype=bool)
    fits[order] = place < budget[sequence]
    if rules.whole_word_mask:  # a word whose last piece does not fit is left alone
        fits &= np.bincount(word, weights=maskable & ~fits, minlength=len(ids))[word] == 0
    positions = np.flatnonzero(fits & maskable)  # [M]
    originals = ids[positions].copy()  # [M]
    draw = uniform(key + 1, row[positions], place[positions])
    other = (uniform(key + 2, row[positions], place[positions]) * len(rules.vocab_ids)).astype(np.int64)
    replaced = np.where(draw < 0.9, np.asarray(rules.vocab_ids)[other], originals)
    ids[positions] = np.where(draw < 0.8, rules.mask_id, replaced)
    return positions, originals
