"""Masked-LM on blocks of whole lines, masked as fairseq does (RoBERTa: Liu et al. 2019, sections 4.1 and 4.2)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from bertcli.objectives.masked_lm import MASKED_LM, has_heads
from bertcli.objectives.objective import Objective

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from bertcli.data.pretraining.draws import Draws
    from bertcli.data.pretraining.instances import Instances, Span
    from bertcli.data.pretraining.masking import MaskingRules, Masks
    from bertcli.data.pretraining.shards import UnpackedRows
    from bertcli.objectives.objective import Targets

SEPARATOR = 1  # tokens of the line between documents
ANYWHERE, ACROSS_DOCUMENTS, WITHIN_DOCUMENTS, EVERY_LINE = ("none", "complete", "complete_doc", "eos")

# T tokens of the batch, N sequences, U units (words, or tokens) that are masked whole


def token_blocks(lengths: Sequence[int], longest: int, mode: str) -> list[Span]:
    """Cut lines that follow each other into blocks, as TokenBlockDataset does; returns first token and one after the last.

    `complete` puts lines together while they fit; a longer one stays alone. `complete_doc` does so within documents: a line
    of one token ends a block and is left out, as are blocks of one token. `eos` makes each line a block, `none` ignores lines.
    """
    bounds = list(accumulate(lengths, initial=0))
    if mode == EVERY_LINE:
        return list(pairwise(bounds))
    if mode == ANYWHERE:
        return [(start, min(start + longest, bounds[-1])) for start in range(0, bounds[-1], longest)]
    found: list[Span] = []
    least = 2 if mode == WITHIN_DOCUMENTS else 1
    first = 0
    for start, end in pairwise(bounds):
        is_end = mode == WITHIN_DOCUMENTS and end - start == SEPARATOR
        if is_end or end - first > longest:
            found.append((first, start))
            first = start + is_end
    return [block for block in (*found, (first, bounds[-1])) if block[1] - block[0] >= least]


def cut_blocks(mode: str, instances: Instances, draws: Draws) -> list[int]:
    """Add the blocks in the order of the text; one line that is too long for a block is cut, where fairseq leaves it out.

    The static masks of copy n are those of fairseq's epoch n, for the same seed.
    """
    rules, before, corpus = instances.rules, instances.rules.layout.before, instances.corpus
    longest = rules.max_seq_length - len(before)
    found = token_blocks([end - start for start, end in pairwise(corpus.bounds)], longest, mode)
    pieces = [(start, min(start + longest, last)) for first, last in found for start in range(first, last, longest)]
    for copy in range(1, rules.dupe_factor + 1):
        for index, (start, end) in enumerate(pieces):
            if rules.static_masking:
                ids = [*before, *corpus.tokens[start:end].tolist()]
                seed = int(hash((draws.numpy_seed, copy, index)) % 1e6)
                instances.add_tokens(ids, [0] * len(ids), masks=_masks(ids, rules.masking, seed))
            else:
                instances.add((start, end), (end, end), False, draws)
    return list(range(len(instances.next_sentence_labels)))


def mask_tokens(
    ids: NDArray[np.int64], rules: MaskingRules, generator: Any, weights: NDArray[np.float64] | None = None
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Mask a sequence, [T], special tokens included, as MaskTokensDataset does, draw for draw.

    `generator` is numpy's Generator or, as until fairseq 0.9, its RandomState; `weights`, [V], are of random tokens.
    Returns the sequence as the model reads it, and which tokens it is to predict.
    """
    import numpy as np

    begins = ~np.asarray(rules.is_continuation)[ids] if rules.whole_word_mask else np.ones(len(ids), dtype=bool)
    lengths = np.diff(np.append(np.flatnonzero(begins), len(ids)))  # [U]
    _, keep, other = (share / 100 for share in rules.shares)
    units = len(lengths)
    chosen = np.zeros(units, dtype=bool)
    chosen[generator.choice(units, int(rules.masked_lm_prob * units + generator.random()), replace=False)] = True
    kept = random = np.zeros(units, dtype=bool)
    if keep + other > 0:
        changed = chosen & (generator.random(units) < keep + other)
        is_kept = generator.random(units) < keep / (keep + other) if keep and other else np.full(units, keep > 0)
        kept, random = changed & is_kept, changed & ~is_kept
    masked = ids.copy()
    masked[np.repeat(chosen & ~kept, lengths)] = rules.mask_id
    places = np.flatnonzero(np.repeat(random, lengths))
    if len(places):
        if weights is None:
            weights = np.bincount(rules.replacing_ids, minlength=len(rules.is_continuation)) / len(rules.replacing_ids)
        masked[places] = generator.choice(len(weights), len(places), p=weights)
    return masked, np.repeat(chosen, lengths)


def draw_masks(length: int, first_length: int, ids: list[int], rules: MaskingRules, draws: Draws) -> Masks:
    """Draw the static masks of an instance."""
    return _masks(ids, rules, draws.getrandbits(32))


def _masks(ids: list[int], rules: MaskingRules, seed: int) -> Masks:
    import numpy as np

    masked, is_masked = mask_tokens(np.array(ids), rules, np.random.default_rng(seed))
    places = np.flatnonzero(is_masked)
    return places.tolist(), masked[places].tolist()


def _targets(read: UnpackedRows) -> Targets:
    """The masks of the data, else masks drawn by (seed, step, row), as many and as often as `mask_tokens` draws them."""
    positions, originals = read.masks or mask_batch(read)
    return {"masked_lm_positions": positions, "masked_lm_ids": originals}


def mask_batch(read: UnpackedRows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Mask all sequences of a packed batch in place; return the masked positions, ascending, and their original ids."""
    import numpy as np

    from bertcli.data.packing.keyed import uniform

    ids, rules, key = read.input_ids, read.rules, read.key
    sequence = np.repeat(np.arange(len(read.lengths)), read.lengths)  # [T]
    starts = np.cumsum(read.lengths) - read.lengths
    place = np.arange(len(ids)) - starts[sequence]  # [T]
    begins = np.ones(len(ids), dtype=bool)
    if rules.whole_word_mask:
        begins = (place == 0) | ~np.asarray(rules.is_continuation)[ids]
    unit = np.flatnonzero(begins)  # [U]
    row = read.rows[sequence]
    of_unit = sequence[unit]
    units = np.bincount(of_unit, minlength=len(starts))  # [N]
    wanted = (rules.masked_lm_prob * units + uniform(key, read.rows)).astype(np.int64)  # [N]
    order = np.lexsort((uniform(key + 1, row[unit], place[unit]), of_unit))
    rank = np.arange(len(unit)) - (np.cumsum(units) - units)[of_unit]
    chosen = np.zeros(len(ids), dtype=bool)
    chosen[unit[order[rank < wanted[of_unit]]]] = True
    owner = np.maximum.accumulate(np.where(begins, np.arange(len(ids)), 0))  # [T] where the token's unit begins
    positions = np.flatnonzero(chosen[owner])  # [M]
    originals = ids[positions].copy()
    draw = uniform(key + 2, row[positions], place[owner[positions]])
    other = (uniform(key + 3, row[positions], place[positions]) * len(rules.replacing_ids)).astype(np.int64)
    mask, same, _ = rules.shares
    replaced = np.where(draw < (mask + same) / 100, originals, rules.replacing_ids[other])
    ids[positions] = np.where(draw < mask / 100, rules.mask_id, replaced)
    return positions, originals


PARTS = (replace(MASKED_LM, targets=_targets),)
FULL_SENTENCES = Objective(
    "full-sentences",
    PARTS,
    partial(cut_blocks, ACROSS_DOCUMENTS),
    ends_lines=True,
    draw_masks=draw_masks,
    model_class="AutoModelForMaskedLM",
    fits=has_heads,
    trains_every_weight=False,
    ignored=("short_seq_prob", "max_predictions_per_seq", "span_mask", "ngram_mask"),
)
DOC_SENTENCES = replace(FULL_SENTENCES, name="doc-sentences", cut=partial(cut_blocks, WITHIN_DOCUMENTS))
