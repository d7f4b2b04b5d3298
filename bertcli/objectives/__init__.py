"""Pre-training objectives, one file each: instances, targets, heads, losses and metrics."""

from bertcli.errors import unknown
from bertcli.objectives.left_to_right import LEFT_TO_RIGHT
from bertcli.objectives.masked_lm import MLM
from bertcli.objectives.next_sentence import MLM_AND_NSP
from bertcli.objectives.objective import Objective
from bertcli.objectives.sentence_order import MLM_AND_SOP
from bertcli.objectives.two_directions import TWO_DIRECTIONS

OBJECTIVES = {objective.name: objective for objective in (MLM_AND_NSP, MLM_AND_SOP, MLM, LEFT_TO_RIGHT, TWO_DIRECTIONS)}


def get_objective(name: str) -> Objective:
    """The objective of a name. Raises UserError, naming the nearest, if there is none."""
    if name not in OBJECTIVES:
        raise unknown("objective", name, OBJECTIVES)
    return OBJECTIVES[name]


def default_objective(has_pairs: bool) -> Objective:
    """The original's objective for data of pairs; for data of single texts, the part that they allow."""
    return MLM_AND_NSP if has_pairs else MLM
