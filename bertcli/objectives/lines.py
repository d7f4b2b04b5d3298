"""Masked-LM on single lines, as DistilBERT's data are made (Sanh et al. 2019: lm_seqs_dataset.py)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bertcli.objectives.masked_lm import MLM

if TYPE_CHECKING:
    from bertcli.data.pretraining.draws import Draws
    from bertcli.data.pretraining.instances import Instances, Span

SHORTEST = 12  # tokens, special ones included
MOST_UNKNOWN = 0.5  # of the tokens, from which on a line is left out


def pieces(length: int, longest: int) -> list[Span]:
    """Cut a line of so many tokens for inputs of at most `longest`, special tokens included.

    The original cuts what has [CLS] already, to two tokens less than the longest, so the first piece is one shorter.
    """
    if length + 2 <= longest:
        return [(0, length)]
    starts = [0, *range(longest - 3, length, longest - 2)]
    return [(start, end) for start, end in zip(starts, [*starts[1:], length], strict=True)]


def _cut(instances: Instances, draws: Draws) -> list[int]:
    """Add the lines that are long enough and have enough known tokens, in random order."""
    corpus, rules = instances.corpus, instances.rules
    unknown = corpus.tokens == rules.masking.unk_id
    for _ in range(rules.dupe_factor):
        for first, last in corpus.documents:
            for line in range(first, last):
                begin, end = corpus.bounds[line], corpus.bounds[line + 1]
                for start, stop in pieces(end - begin, rules.max_seq_length):
                    length = stop - start + 2
                    if length >= SHORTEST and unknown[begin + start : begin + stop].sum() / length < MOST_UNKNOWN:
                        instances.add((begin + start, begin + stop), (begin + stop, begin + stop), False, draws)
    order = list(range(len(instances.next_sentence_labels)))
    draws.shuffle(order)
    return order


LINES = replace(MLM, name="lines", cut=_cut)
