"""Pre-training objectives, one file each: instances, targets, heads, losses and metrics."""

from collections.abc import Collection

from bertcli.errors import UserError, flag_of, unknown
from bertcli.families import get_family, pretrainable
from bertcli.families.family import Family
from bertcli.objectives.full_sentences import DOC_SENTENCES, FULL_SENTENCES
from bertcli.objectives.left_to_right import LEFT_TO_RIGHT
from bertcli.objectives.lines import LINES
from bertcli.objectives.masked_lm import MLM
from bertcli.objectives.masked_ngrams import MASKED_NGRAMS
from bertcli.objectives.next_sentence import MLM_AND_NSP
from bertcli.objectives.objective import Objective
from bertcli.objectives.permutation_lm import PERMUTATION_LM
from bertcli.objectives.replaced_tokens import DETECTION
from bertcli.objectives.rtd_gdes import RTD_ES, RTD_GDES, RTD_NONE
from bertcli.objectives.sentence_order import MLM_AND_SOP
from bertcli.objectives.sentence_pairs import SENTENCE_PAIRS, SENTENCE_PAIRS_AND_NSP
from bertcli.objectives.two_directions import TWO_DIRECTIONS

OF_BERT = (MLM_AND_NSP, MLM, LEFT_TO_RIGHT, TWO_DIRECTIONS, LINES)
OF_ROBERTA = (FULL_SENTENCES, DOC_SENTENCES, SENTENCE_PAIRS, SENTENCE_PAIRS_AND_NSP)
OF_DEBERTA = (MASKED_NGRAMS, RTD_GDES, RTD_ES, RTD_NONE)
ALL = (*OF_BERT, *OF_ROBERTA, MLM_AND_SOP, DETECTION, PERMUTATION_LM, *OF_DEBERTA)
OBJECTIVES = {objective.name: objective for objective in ALL}


def get_objective(name: str) -> Objective:
    """The objective of a name. Raises UserError, naming the nearest, if there is none."""
    if name not in OBJECTIVES:
        raise unknown("objective", name, OBJECTIVES)
    return OBJECTIVES[name]


def check_objective(objective: Objective, family: Family, given: Collection[str] = ()) -> None:
    """Raise UserError if a family is not pre-trained by an objective, or an option that is given has no effect with it."""
    for name in objective.ignored:
        if name in given:
            flag = flag_of(name)
            raise UserError(f"{flag} has no effect with --objective {objective.name}.", f"Leave {flag} out.")
    if objective.name not in family.objectives:
        what = f"{family.name} is not pre-trained by --objective {objective.name}."
        others = " or ".join(key for key in pretrainable() if objective.name in get_family(key).objectives)
        raise UserError(what, f"Give one of: {', '.join(family.objectives)}; or --family {others}, with its own data.")


def default_objective(has_pairs: bool, family: str | None = None) -> Objective:
    """The objective of a family; for single texts, where its own needs pairs, the part that they allow."""
    own = OBJECTIVES[get_family(family).objective]
    return own if has_pairs or not own.needs_pairs else MLM
