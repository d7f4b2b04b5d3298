"""Families of models, one file each: model types, layout, pooling, and whether batches are packed."""

from bertcli.errors import unknown
from bertcli.families.albert import ALBERT
from bertcli.families.bert import BERT
from bertcli.families.big_bird import BIG_BIRD
from bertcli.families.deberta import DEBERTA, DEBERTA_3
from bertcli.families.distilbert import DISTILBERT
from bertcli.families.electra import ELECTRA
from bertcli.families.ernie import ERNIE
from bertcli.families.family import Family
from bertcli.families.fnet import FNET
from bertcli.families.other import OTHER
from bertcli.families.roberta import ROBERTA
from bertcli.families.two_directions import TWO_DIRECTIONS
from bertcli.families.xlnet import XLNET
from bertcli.families.xmod import XMOD

FAMILIES: tuple[Family, ...] = (BERT, ROBERTA, ALBERT, ELECTRA, DISTILBERT, XLNET, ERNIE, XMOD, DEBERTA, DEBERTA_3)
FAMILIES += (FNET, BIG_BIRD, TWO_DIRECTIONS)
DISTILLED = {DISTILBERT.key: "Make it from a teacher, one of your runs or models: bert distill --teacher RUN"}


def family_of(model_type: str) -> Family:
    """The family of a model by the `model_type` in its config.json; OTHER for one that has no file here."""
    return next((family for family in FAMILIES if model_type in family.model_types), OTHER)


def pretrainable() -> list[str]:
    """The names of the families that can be pre-trained from raw text."""
    return [family.key for family in FAMILIES if family.objective]


def objectives() -> list[str]:
    """The names of the objectives by which families are pre-trained."""
    return list(dict.fromkeys(name for family in FAMILIES for name in family.objectives))


def sizes() -> list[str]:
    """The names of the sizes of all families."""
    return list(dict.fromkeys(size for family in FAMILIES for size in family.sizes))


def get_family(name: str | None) -> Family:
    """The family of a name such as `roberta`; BERT for None. Raises UserError if it cannot be pre-trained here."""
    if (name or BERT.key) not in pretrainable():
        raise unknown("family", name or "", pretrainable())
    return next(family for family in FAMILIES if family.key == (name or BERT.key))
