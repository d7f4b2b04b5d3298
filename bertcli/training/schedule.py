"""The learning rate as a function of the step (optimization.py)."""


def learning_rate_at(step: int, peak: float, steps: int, warmup_steps: int) -> float:
    """Linear warm-up, then linear decay counted from step 0.

    The first step of a warm-up has rate 0, and the rate steps down where the warm-up ends: both as in the original.
    """
    if step < warmup_steps:
        return peak * step / warmup_steps
    return peak * (1 - min(step, steps) / steps)
