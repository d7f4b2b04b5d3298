"""Kinds of task, one file each: columns, encoding, head, loss, decoding, score, file formats and errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertcli.errors import unknown
from bertcli.kinds.choice import CHOICE
from bertcli.kinds.classification import CLASSIFICATION
from bertcli.kinds.kind import Kind
from bertcli.kinds.mask import MASK
from bertcli.kinds.multilabel import MULTILABEL
from bertcli.kinds.regression import REGRESSION
from bertcli.kinds.span import SPAN
from bertcli.kinds.tagging import TAGGING
from bertcli.kinds.word_labels import WORD_LABELS

if TYPE_CHECKING:
    from transformers import PretrainedConfig

ALL: tuple[Kind, ...] = CLASSIFICATION, REGRESSION, MULTILABEL, CHOICE, SPAN, TAGGING, WORD_LABELS, MASK
KINDS = {kind.name: kind for kind in ALL}


def get_kind(name: str) -> Kind:
    """Find a kind by its name. Raises UserError if there is none, with the nearest name."""
    if name not in KINDS:
        raise unknown("kind", name, KINDS)
    return KINDS[name]


def kind_of_model(saved: PretrainedConfig) -> Kind | None:
    """The kind of a saved model, if it has a head of one."""
    return next((kind for kind in KINDS.values() if kind.has_made(saved)), None)
