"""Options that do not go with a task, a family, an objective or each other."""

from typing import Any

from bertcli.config.training import MASKING, WINDOWS, FinetuneConfig, PretrainConfig
from bertcli.data.pretraining.masking import SHARES, parse_shares
from bertcli.errors import UserError, flag_of
from bertcli.families.family import Family
from bertcli.kinds import KINDS
from bertcli.objectives import check_objective
from bertcli.objectives.objective import Objective
from bertcli.tasks.task import Task


def given_masking(config: PretrainConfig) -> dict[str, Any]:
    """The options of masking that are given; evaluation keeps the data's, so that its losses compare."""
    return {name: value for name in MASKING if (value := getattr(config, name)) is not None and value is not False}


def check_pretraining(config: PretrainConfig, objective: Objective, family: Family) -> None:
    """Raise UserError if the objective, or an option that is given, is not for the family, or has no effect."""
    given = given_masking(config)
    check_objective(objective, family, given)
    if config.generator_size and not family.generator:
        raise UserError(f"{family.name} has no generator, so --generator-size has no effect.", "Leave it out.")
    parse_shares(config.mask_shares or SHARES)
    if given and not objective.fills_masks:
        flags = ", ".join(flag_of(name) for name in given)
        raise UserError(f"--objective {objective.name} masks nothing, so {flags} has no effect.", f"Leave out {flags}.")


def check_memory(memory: int | None, objective: Objective, length: int) -> None:
    """Raise UserError if the objective has no memory, or rows of `length` tokens have less for the next."""
    if memory is not None and not objective.has_memory:
        raise UserError(f"--objective {objective.name} has no memory.", "Leave --memory out.")
    if memory and memory > length // 2:
        what = f"--memory {memory} is more than half a row of {length} tokens, which is what the next row continues."
        raise UserError(what, f"Give --memory {length // 2} or less, or make data of a larger --max-seq-length.")


def check_finetuning(config: FinetuneConfig, task: Task) -> None:
    """Raise UserError if an option is for another kind of task, or does not go with another option."""
    own = KINDS[task.kind]
    for kind in KINDS.values():
        for option in kind.options:
            if getattr(config, option) != getattr(FinetuneConfig, option) and option not in own.options:
                flag = flag_of(option)
                what = f"{flag} is for {kind.purpose}; {task.name} is of the kind `{task.kind}`."
                raise UserError(what, f"Leave {flag} out.")
    if config.long_texts == WINDOWS and not own.has_linear_head:
        what = f"--long-texts is for texts with labels or values; {task.name} is of the kind `{task.kind}`."
        raise UserError(what, "Leave --long-texts out.")
    if not config.frozen:
        return
    if config.gradient_checkpointing:
        what = "--gradient-checkpointing saves nothing with --frozen, whose layers have no backward pass."
        raise UserError(what, "Leave one of them out.")
    if config.grid:
        what = "--grid has the rates and epochs of a BERT that is fine-tuned, not of the BiLSTM of --frozen."
        raise UserError(what, "Leave one of them out.")
    if config.bilstm:
        raise UserError("--frozen has a BiLSTM of its own.", "Leave --bilstm out.")
