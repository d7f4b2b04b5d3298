"""Masks that prefer rare tokens, by their frequency to a negative power, as DistilBERT's (Sanh et al. 2019: distiller.py)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from bertcli.objectives.masked_lm import MASKED_LM

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from bertcli.data.pretraining.masking import MaskingRules
    from bertcli.data.pretraining.shards import UnpackedRows
    from bertcli.objectives.objective import Part, Targets

# V vocabulary, T tokens of the batch


def token_weights(counts: NDArray[np.int64], smoothing: float, special_ids: list[int]) -> NDArray[np.float64]:
    """How much each token is preferred, [V], by how often it occurs; special tokens are never masked."""
    import numpy as np

    weights: NDArray[np.float64] = np.maximum(counts, 1).astype(np.float64) ** -smoothing
    weights[special_ids] = 0.0
    return weights


def mask_probabilities(counts: NDArray[np.int64], weights: NDArray[np.float64], share: float) -> NDArray[np.float64]:
    """The probability with which each token is masked, [V], so that a share of all tokens is: its weight times a factor."""
    import numpy as np

    wanted, low, high = share * counts.sum(), 0.0, 1 / weights[weights > 0].min()
    for _ in range(60):
        factor = (low + high) / 2
        low, high = (factor, high) if counts @ np.minimum(1, factor * weights) < wanted else (low, factor)
    probabilities: NDArray[np.float64] = np.minimum(1, high * weights)
    return probabilities


def _targets(probabilities: NDArray[np.float64], read: UnpackedRows) -> Targets:
    """Masks drawn by (seed, step, row), each token by its own probability, so that no batch decides on another's."""
    import numpy as np

    from bertcli.data.packing.keyed import uniform

    ids, rules = read.input_ids, read.rules
    row = np.repeat(read.rows, read.lengths)  # [T]
    place = np.arange(len(ids)) - np.repeat(np.cumsum(read.lengths) - read.lengths, read.lengths)  # [T]
    positions = np.flatnonzero(uniform(read.key, row, place) < probabilities[ids])
    originals = ids[positions].copy()
    draw, other = (uniform(read.key + number, row[positions], place[positions]) for number in (1, 2))
    mask, same, _ = rules.shares
    changed = np.where(draw < (mask + same) / 100, originals, (other * len(probabilities)).astype(np.int64))
    ids[positions] = np.where(draw < mask / 100, rules.mask_id, changed)
    return {"masked_lm_positions": positions, "masked_lm_ids": originals}


def smoothed_part(counts: NDArray[np.int64], smoothing: float, rules: MaskingRules) -> Part:
    """Masked-LM with such masks, by how often each token occurs, [V]."""
    weights = token_weights(counts, smoothing, rules.special_ids)
    return replace(MASKED_LM, targets=partial(_targets, mask_probabilities(counts, weights, rules.masked_lm_prob)))
