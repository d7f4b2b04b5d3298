"""Pairs of single lines, with or without next-sentence prediction (RoBERTa: Liu et al. 2019, section 4.2)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from bertcli.data.pretraining.instances import each_document
from bertcli.objectives.full_sentences import FULL_SENTENCES
from bertcli.objectives.next_sentence import MLM_AND_NSP, random_segments, truncate_pair

if TYPE_CHECKING:
    from bertcli.data.pretraining.draws import Draws
    from bertcli.data.pretraining.instances import Instances, Span


def line_pairs_of_document(documents: list[Span], index: int, instances: Instances, draws: Draws) -> None:
    """Pair each line with the one after it, which is then used, or half of the time with a random one of another document."""
    bounds, (line, last) = instances.corpus.bounds, documents[index]
    longest = instances.rules.max_seq_length - sum(map(len, instances.rules.layout.tokens))
    while line < last:
        first = bounds[line], bounds[line + 1]
        is_random = line + 1 == last or draws.random() < 0.5
        second = random_segments(documents, index, 1, bounds, draws) if is_random else bounds[line + 1 : line + 3]
        line += 1 if is_random else 2
        instances.add(*truncate_pair(first, (second[0], second[1]), longest, draws), is_random, draws)


LINE_PAIRS = partial(each_document, line_pairs_of_document)
SENTENCE_PAIRS = replace(FULL_SENTENCES, name="sentence-pairs", cut=LINE_PAIRS, ends_lines=False)
SENTENCE_PAIRS_AND_NSP = replace(MLM_AND_NSP, name="sentence-pairs+nsp", cut=LINE_PAIRS)
