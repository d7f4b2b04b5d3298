"""The plan of a training: how long, how fast, and when to log, evaluate and save."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

from bertcli import number_of
from bertcli.families.family import BERT_RULES, CONSTANT, COSINE, COSINE_AFTER, LINEAR, MULTIPLIED, OptimizerRules

EVALUATED = 0.3  # what a token costs in an evaluation, beside one in a step
FIRST_SAVE_SECONDS = 60.0  # a run that is killed early loses a minute


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How long to train, how fast to learn, and when to log, evaluate and save."""

    steps: int
    batch_size: int  # rows of a step, over all processes
    learning_rate: float  # peak
    warmup_steps: float
    eval_steps: int  # between evaluations
    save_steps: int  # between checkpoints
    save_minutes: float  # between checkpoints, whichever comes first
    log_steps: int | None = None  # between log lines; None: about fifty lines in a run
    optimizer: str
    rules: OptimizerRules = BERT_RULES  # of the family
    seed: int
    micro_batch_tokens: int | None = None  # in one forward pass; None: what suits the device
    auto_batch_size: bool = False  # whether to halve the micro-batches where memory does not hold them
    step_costs: tuple[tuple[range, float], ...] = ()  # of steps, what each costs; () where all cost the same
    eval_cost: float = 0.0  # what an evaluation costs beside a step
    patience: int | None = None  # evaluations without improvement after which to stop
    seen_steps: frozenset[int] = frozenset()  # after which `evaluate` is called although no score is due

    @classmethod
    def of(cls, options: Any, **derived: Any) -> Self:
        """The plan with the options of the same names, but for what is derived from others."""
        given = {each.name: getattr(options, each.name) for each in fields(cls) if hasattr(options, each.name)}
        return cls(**given | derived)

    def rate_at(self, step: int) -> float:
        """The learning rate of a step."""
        return learning_rate_at(step, self.learning_rate, self.steps, self.warmup_steps, self.rules)

    def cost(self, step: int) -> float:
        """What a step costs beside others, by which the time left is estimated."""
        return next((cost for steps, cost in self.step_costs if step in steps), 1.0)

    def cost_until(self, step: int) -> float:
        """What the steps before one cost, with their evaluations."""
        costs = (cost * len(steps[: max(0, step - steps.start)]) for steps, cost in self.step_costs)
        return (sum(costs) or float(step)) + self.eval_cost * self.evaluations_until(step)

    def evaluations_until(self, step: int) -> int:
        """The number of evaluations after the steps before one."""
        return step // self.eval_steps + (step == self.steps and step % self.eval_steps > 0)

    def is_due(self, step: int, every: int | None) -> bool:
        """Whether something that is done every so many steps, or about fifty times, is due after `step`."""
        return step % (every or max(1, min(100, self.steps // 50))) == 0 or step == self.steps

    def is_save_due(self, seconds: float, is_first: bool) -> bool:
        """Whether a checkpoint is due so many seconds after the last one, or after the start."""
        return seconds >= (min(FIRST_SAVE_SECONDS, 60 * self.save_minutes) if is_first else 60 * self.save_minutes)

    def describe(self, rows: float, reasons: Mapping[str, str] | None = None) -> str:
        """The plan in one line, for data of so many rows, with the reasons of what was chosen."""
        why = {name: f", {reason}" for name, reason in (reasons or {}).items()}
        return (
            f"{number_of(self.steps, 'step')} of {self.batch_size} ({self.steps * self.batch_size / rows:.3g} epochs"
            f"{why.get('epochs', '')}), {self.optimizer}, learning rate {self.learning_rate:g}"
            f"{why.get('learning_rate', '')}, {number_of(int(self.warmup_steps), 'step')} of warm-up, seed {self.seed}"
        )


def _cosine(share: float) -> float:
    return (1 - math.cos(math.pi * share)) / 2


# Decays that are no power of the share of them that is left (lr_schedulers.py of DeBERTa).
DECAYS: dict[str, Callable[[float], float]] = {CONSTANT: lambda share: 1.0, COSINE: _cosine, COSINE_AFTER: _cosine}


def learning_rate_at(
    step: int, peak: float, steps: int, warmup_steps: float, rules: OptimizerRules = BERT_RULES
) -> float:
    """The learning rate of a step: linear warm-up, then polynomial decay, linear unless the rules say otherwise.

    The first step of a warm-up has rate 0. Where the decay is counted from step 0, the rate drops where the warm-up
    ends: both as in optimization.py. ELECTRA's does not drop: its warm-up is a factor of the decay.
    """
    is_multiplied = rules.schedule == MULTIPLIED
    if step < warmup_steps and not is_multiplied:
        return peak * step / warmup_steps
    first = warmup_steps if rules.schedule in (LINEAR, COSINE_AFTER) else 0.0
    share = 1 - (min(step, steps) - first) / max(1, steps - first)  # of the decay that is left
    left: float = DECAYS[rules.schedule](share) if rules.schedule in DECAYS else share**rules.power
    final = peak * rules.final_rate
    rate = (peak - final) * left + final
    return rate * min(1.0, step / warmup_steps) if is_multiplied and warmup_steps else rate
