"""The settings of a fine-tuning that were not given: chosen by the size of the data and of the model."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bertcli import number_of
from bertcli.config.training import FinetuneConfig
from bertcli.kinds import KINDS
from bertcli.tasks.task import Task

# Hidden units at most -> peak learning rate: narrower models need larger ones (Turc et al. 2019 search up to 3e-4 for theirs),
# and a new head larger ones than a head that is fitted to the frozen model.
RATES_OF_FITTED, RATES_OF_NEW = {128: 1e-3, 256: 3e-4, 512: 1e-4}, {128: 1e-3, 256: 5e-4, 512: 3e-4}
# Few examples need as many updates as more do (Mosbach et al. 2021), many labels more than few, a new head that is not
# fitted to the frozen model more than one that is: fewest steps, steps per label, most epochs.
STEPS_OF_FITTED, STEPS_OF_NEW = (100, 1, 20.0), (200, 5, 40.0)
# At least: F1 on 4,000 sentences of CoNLL-2003 is 35 after 375 steps and 68 after these; without a BiLSTM 49 and 52.
BILSTM_STEPS = 1250
MOST_LABELS = 200
FEW_PAIRS, SHARE_OF_FEW = 200, 0.3  # share of the rate: few labels should not undo what was learnt of similarity
FROZEN_LEARNING_RATE, FROZEN_EPOCHS = 1e-3, 10.0  # of a BiLSTM on frozen states, for which the paper names none


@dataclass(frozen=True)
class Settings:
    """Examples of a step, passes over the examples, peak learning rate, and why these were chosen, by their names."""

    batch_size: int
    epochs: float
    learning_rate: float
    reasons: Mapping[str, str] = field(default_factory=dict)

    @property
    def chosen(self) -> dict[str, float]:
        """The numbers by the names of their options."""
        return {"batch_size": self.batch_size, "learning_rate": self.learning_rate, "epochs": self.epochs}


def choose_settings(
    config: FinetuneConfig,
    task: Task,
    examples: int,
    hidden_size: int,
    has_fitted_head: bool = False,
    has_few_pairs: bool = False,
) -> Settings:
    """The settings of a fine-tuning on so many examples: those given, and for the others what is known to work.

    The paper's tasks on models of the paper's sizes get the paper's settings. Few pairs, of a model that
    has learnt their similarity without labels, get a smaller learning rate. Each choice counts as an example: on
    128 questions of CODAH with four choices, minilm gets 40.3 in 13.5 epochs and 38.1 in 40 (medians of three seeds).
    """
    batch_size, epochs, learning_rate = config.batch_size or task.batch_size, config.epochs, config.learning_rate
    reasons: dict[str, str] = {}
    if not (config.frozen or (task.hub[0] and hidden_size >= task.papers_width)):
        if learning_rate is None and (learning_rate := _rate_of_width(hidden_size, has_fitted_head)):
            reasons["learning_rate"] = f"for {hidden_size} hidden units{' and few pairs' * has_few_pairs}"
            learning_rate *= SHARE_OF_FEW**has_few_pairs
        fewest, per_label, most_epochs = STEPS_OF_FITTED if has_fitted_head else STEPS_OF_NEW
        steps = max(fewest + per_label * min(len(task.labels), MOST_LABELS), BILSTM_STEPS * config.bilstm)
        needed = min(most_epochs, round(steps * batch_size / (examples * KINDS[task.kind].inputs_of_example(task)), 1))
        if epochs is None and needed > task.epochs:
            epochs = needed
            few = f"{('is', 'are')[examples != 1]} few{' for a new BiLSTM' * config.bilstm}"
            reasons["epochs"] = f"as {number_of(examples, 'example')} {few}"
    rate = task.learning_rate if learning_rate is None else learning_rate
    return Settings(batch_size, epochs or task.epochs, rate, reasons)


def _rate_of_width(hidden_size: int, has_fitted_head: bool) -> float | None:
    rates = RATES_OF_FITTED if has_fitted_head else RATES_OF_NEW
    return next((rate for size, rate in rates.items() if hidden_size <= size), None)


def usual_learning_rate(task: Task, hidden_size: int, has_fitted_head: bool) -> float:
    """The learning rate that is known to work for a model of this width."""
    return _rate_of_width(hidden_size, has_fitted_head) or task.learning_rate
