"""The plan of a training: how long, how fast, and when to log, evaluate and save."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How long to train, how fast to learn, and when to log, evaluate and save."""

    steps: int
    batch_size: int  # rows of a step, over all processes
    learning_rate: float  # peak
    warmup_steps: int
    eval_steps: int  # between evaluations
    save_steps: int  # between checkpoints
    log_steps: int | None = None  # between log lines; None: about fifty lines in a run
    optimizer: str
    seed: int
    micro_batch_tokens: int | None = None  # in one forward pass; None: what suits the device
    patience: int | None = None  # evaluations without improvement after which to stop

    def is_due(self, step: int, every: int | None) -> bool:
        """Whether something that is done every so many steps, or about fifty times, is due after `step`."""
        return step % (every or max(1, min(100, self.steps // 50))) == 0 or step == self.steps

    def learning_rate_at(self, step: int) -> float:
        """Linear warm-up, then linear decay counted from step 0, as in optimization.py.

        There too, the first step of a warm-up has rate 0, and the rate steps down where the warm-up ends.
        """
        if step < self.warmup_steps:
            return self.learning_rate * step / self.warmup_steps
        return self.learning_rate * (1 - min(step, self.steps) / self.steps)

    def describe(self, rows: int) -> str:
        """The plan in one line, for data of so many rows."""
        return (
            f"{self.batch_size} per step, {self.steps:,} steps ({self.steps * self.batch_size / rows:.2f} epochs), "
            f"{self.optimizer}, learning rate {self.learning_rate:g}, {self.warmup_steps:,} steps of warm-up, "
            f"seed {self.seed}"
        )
