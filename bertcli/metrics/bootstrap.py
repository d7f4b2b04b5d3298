"""Confidence intervals of scores, by the percentile bootstrap (Efron 1979)."""

import numpy as np

from bertcli.metrics.metric import Array, Weighted

RESAMPLES = 1000
CONFIDENCE = 95  # per cent
NUMBERS_AT_ONCE = 4_000_000  # weights held in memory


def resampled_scores(weighted: Weighted, examples: int, seed: int = 0) -> dict[str, Array]:
    """The scores, times 100, of 1,000 resamples of the examples with replacement, [resamples].

    The resamples depend only on the number of examples and the seed, so two models are compared on the same ones.
    """
    draw = np.random.default_rng(seed)
    at_once = max(1, NUMBERS_AT_ONCE // examples)
    parts = []
    for start in range(0, RESAMPLES, at_once):
        rows = draw.integers(examples, size=(min(at_once, RESAMPLES - start), examples), dtype=np.int32)
        parts.append(weighted(np.stack([np.bincount(row, minlength=examples) for row in rows]).astype(np.float64)))
    return {name: 100 * np.concatenate([part[name] for part in parts]) for name in parts[0]}


def confidence_interval(scores: Array) -> list[float]:
    """The ends of the middle 95 % of resampled scores, or of the differences between two models."""
    tail = (100 - CONFIDENCE) / 2
    return [round(float(end), 6) for end in np.percentile(scores, [tail, 100 - tail])]
