"""Masked-LM of n-grams in rows of one stream of text (DeBERTa)."""

from __future__ import annotations

from bisect import bisect
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from bertcli.data.pretraining.masking import KEPT, mask_rows
from bertcli.objectives.masked_lm import MASKED_LM, MLM

if TYPE_CHECKING:
    from bertcli.data.pretraining.draws import Draws
    from bertcli.data.pretraining.instances import Instances
    from bertcli.data.pretraining.masking import MaskingRules, Masks
    from bertcli.data.pretraining.shards import UnpackedRows
    from bertcli.objectives.objective import Targets

IGNORED = ("short_seq_prob", "span_mask", "ngram_mask")
LONGEST = 3  # words of an n-gram (`--max_ngram 3` of mlm.sh)


def rows_of_stream(instances: Instances, draws: Draws) -> list[int]:
    """Cut all tokens, whatever line or document they are of, into rows of the maximum length (prepare_data.py)."""
    count, longest = len(instances.corpus.tokens), instances.rules.max_seq_length - 2
    for _ in range(instances.rules.dupe_factor):
        for start in range(0, count, longest):
            end = min(start + longest, count)
            instances.add((start, end), (end, end), False, draws)
    return [*range(len(instances.next_sentence_labels))]


def draw_ngrams(ids: list[int], rules: MaskingRules, draws: Draws, longest: int | None = None) -> Masks:
    """Choose the tokens to mask and their replacements, draw for draw as NGramMaskGenerator of mlm_task.py.

    From the left, each window of six times n words has one n-gram, of n words with the weight 1 / n; a sixth of the words
    is chosen so. Masked are the first of them, until enough tokens are: a full row has few masks in its last tenth.
    Where n is 1 at most, as without whole-word masks, a word is a token. Returns ascending positions, and new tokens or KEPT.
    """
    longest = longest or (LONGEST if rules.whole_word_mask else 1)
    words: list[list[int]] = []
    for place, token in enumerate(ids):
        if token not in rules.special_ids:
            if longest > 1 and words and rules.is_continuation[token]:
                words[-1].append(place)
            else:
                words.append([place])
    positions, replacements = list[int](), list[int]()
    for number in _choose(len(words), longest, int(1 / rules.masked_lm_prob), draws):
        if len(positions) >= rules.num_to_predict(len(ids)):
            break
        positions += words[number]
        replacements += [_replacement(rules, draws) for _ in words[number]]
    return positions, replacements


def _replacement(rules: MaskingRules, draws: Draws) -> int:
    """The new token of a chosen one, or KEPT."""
    drawn, (mask, same, _) = draws.random(), rules.shares
    if drawn < mask / 100:
        return rules.mask_id
    return KEPT if drawn < (mask + same) / 100 else draws.choice(rules.vocab_ids)


def _choose(count: int, longest: int, window: int, draws: Draws) -> list[int]:
    """The numbers of the words in an n-gram of each window."""
    sums, chosen, start = _shares(longest), list[int](), 0
    while start < count:
        length = bisect(sums, draws.random() * sums[-1]) + 1
        size = min(length * window, count - start)
        first = start + draws.randint(0, size - 1)
        last = min(first + length, count)
        chosen += range(first, last)
        start = max(start + size, last)
    return chosen


@cache
def _shares(longest: int) -> list[float]:
    """The probability of an n-gram of at most n words, for n from 1."""
    import numpy as np

    shares = 1.0 / np.arange(1, longest + 1)
    return list((shares / shares.sum()).cumsum())


def draw_masks(length: int, first_length: int, ids: list[int], rules: MaskingRules, draws: Draws) -> Masks:
    """Draw the static masks of a row."""
    return draw_ngrams(ids, rules, draws)


def targets_of(read: UnpackedRows) -> Targets:
    """The masks of the data, else masks drawn by (seed, step, row)."""
    of_rows = (read.input_ids, read.rows, read.lengths, read.rules, read.key)
    positions, originals = read.masks or mask_rows(*of_rows, draw_masks)
    return {"masked_lm_positions": positions, "masked_lm_ids": originals}


MASKED_NGRAMS = replace(
    MLM,
    name="masked-ngrams",
    parts=(replace(MASKED_LM, targets=targets_of),),
    cut=rows_of_stream,
    draw_masks=draw_masks,
    trains_every_weight=True,
    ignored=IGNORED,
)
