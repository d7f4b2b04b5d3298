"""Sentence order: do two texts that follow each other stand in their order? (ALBERT section 3.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from bertcli.data.pretraining.instances import each_document
from bertcli.objectives.masked_lm import MASKED_LM
from bertcli.objectives.next_sentence import NEXT_SENTENCE, has_pair_head, pairs_of_document
from bertcli.objectives.objective import Objective

if TYPE_CHECKING:
    from bertcli.data.pretraining.draws import Draws
    from bertcli.data.pretraining.instances import Instances, Span


def ordered_pairs_of_document(documents: list[Span], index: int, instances: Instances, draws: Draws) -> None:
    """Cut a document into pairs as create_pretraining_data.py of ALBERT does: half of them are swapped.

    A pair of one segment, which nothing follows, gets a text of a random document and counts as swapped, as there.
    """
    pairs_of_document(documents, index, instances, draws, swaps=True)


def _in_words(metrics: Mapping[str, float]) -> str:
    right, guess = metrics["sentence_order_accuracy"], metrics["majority_sentence_order_accuracy"]
    return f"tells for {right:.1f} of 100 pairs of texts whether they stand in their order (guessing: {guess:.1f})"


SENTENCE_ORDER = replace(
    NEXT_SENTENCE,
    name="sentence_order",
    labels="sentence_order_labels",
    targets=lambda read: {"sentence_order_labels": read.next_sentence_labels},
    in_words=_in_words,
    baselines=lambda share, manifest: {"majority_sentence_order_accuracy": 100 * max(share, 1 - share)},
)
ORDERED_PAIRS = partial(each_document, ordered_pairs_of_document)
PARTS = (MASKED_LM, SENTENCE_ORDER)
MLM_AND_SOP = Objective("mlm+sop", PARTS, ORDERED_PAIRS, needs_pairs=True, fits=has_pair_head, negatives="unordered")
