"""Pre-training instances as spans of a corpus, and the columns they are written as."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertcli.data.pretraining.draws import Draws
from bertcli.data.pretraining.masking import KEPT, MaskingRules, draw_masks
from bertcli.data.text.corpus import Corpus

# N instances, T tokens of all of them, M masked tokens

Span = tuple[int, int]  # first token in the corpus and the one after the last


@dataclass(frozen=True)
class InstanceColumns:
    """Instances as flat columns: token ids end to end, and the offset at which each instance begins."""

    input_ids: NDArray[np.uint32]  # [T] after masking
    token_type_ids: NDArray[np.uint8]  # [T]
    offsets: NDArray[np.int64]  # [N + 1]
    next_sentence_labels: NDArray[np.uint8]  # [N]
    masked_lm_positions: NDArray[np.int64]  # [M] within the instance, ascending
    masked_lm_ids: NDArray[np.uint32]  # [M] the original tokens
    masked_lm_offsets: NDArray[np.int64]  # [N + 1]


@dataclass(frozen=True)
class InstanceRules:
    """How documents are cut into instances, and how these are masked."""

    cut: CutDocument  # the objective's
    masking: MaskingRules
    static_masking: bool
    max_seq_length: int
    short_seq_prob: float
    dupe_factor: int

    def target_length(self, longest: int, draws: Draws) -> int:
        """Draw the length of a document's instances: mostly the longest, sometimes shorter, to train on short inputs too."""
        return draws.randint(2, longest) if draws.random() < self.short_seq_prob else longest


class Instances:
    """The instances of a corpus in the order drawn: two spans of the corpus each, and the masks."""

    def __init__(self, corpus: Corpus, rules: InstanceRules) -> None:
        self.corpus, self.rules = corpus, rules
        self.spans, self.next_sentence_labels = array("I"), array("B")  # starts and ends of A and B; is B random?
        self.places, self.replacements, self.mask_counts = array("H"), array("i"), array("H")

    def add(self, first: Span, second: Span, is_random_next: bool, draws: Draws) -> None:
        """Append `[CLS] A [SEP] B [SEP]`, or `[CLS] A [SEP]` where the second span is empty, and draw its masks."""
        self.spans.extend((*first, *second))
        self.next_sentence_labels.append(is_random_next)
        if self.rules.static_masking:
            masking, tokens, first_length = self.rules.masking, self.corpus.tokens, first[1] - first[0] + 2
            length, ids = first_length + (second[1] - second[0] + 1 if second[1] > second[0] else 0), [masking.cls_id]
            for span in (first, second) if masking.reads_words else ():
                ids += [*tokens[slice(*span)].tolist(), masking.sep_id]
            places, replacements = draw_masks(length, first_length, ids, masking, draws)
            self.places.extend(places)
            self.replacements.extend(replacements)
            self.mask_counts.append(len(places))

    def columns(self, order: NDArray[np.int64]) -> InstanceColumns:
        """The columns of the chosen instances, in that order."""
        ids, types, offsets = self._unmasked(order)
        labels = np.asarray(self.next_sentence_labels)[order]
        counts = np.asarray(
            self.mask_counts if self.rules.static_masking else [0] * len(self.next_sentence_labels), np.int64
        )
        mask_offsets = _offsets(counts[order])
        masks = ramps((np.cumsum(counts) - counts)[order], mask_offsets)  # [M] where each is in the flat columns
        row = np.repeat(np.arange(len(order)), counts[order])
        position = np.asarray(self.places)[masks] + offsets[row]  # among all tokens of these rows
        ascending = np.argsort(position)
        position, replacement = position[ascending], np.asarray(self.replacements)[masks[ascending]]
        originals = ids[position]
        ids[position] = np.where(replacement == KEPT, originals, replacement)
        return InstanceColumns(ids, types, offsets, labels, position - offsets[row], originals, mask_offsets)

    def _unmasked(self, order: NDArray[np.int64]) -> tuple[NDArray[np.uint32], NDArray[np.uint8], NDArray[np.int64]]:
        """Tokens, types and offsets of the chosen instances."""
        first, first_end, second, second_end = np.asarray(self.spans).reshape(-1, 4)[order].astype(np.int64).T
        first_lengths = first_end - first + 2  # [CLS] A [SEP]
        second_lengths = np.where(second_end > second, second_end - second + 1, 0)
        offsets, both = _offsets(first_lengths + second_lengths), _interleave(first_lengths, second_lengths)
        types = np.repeat(np.tile(np.array([0, 1], np.uint8), len(order)), both)
        # The place of each token in the corpus; wrong for [CLS] and [SEP], which are overwritten.
        source = ramps(_interleave(first - 1, second), _offsets(both))
        ids = self.corpus.tokens.take(source, mode="clip")
        ids[offsets[:-1]] = self.rules.masking.cls_id
        ids[offsets[:-1] + first_lengths - 1] = ids[offsets[1:] - 1] = self.rules.masking.sep_id
        return ids, types, offsets


CutDocument = Callable[[list[Span], int, Instances, Draws], None]  # adds the instances of one of the documents


def make_instances(corpus: Corpus, rules: InstanceRules, draws: Draws) -> tuple[Instances, NDArray[np.int64]]:
    """Make all instances of the documents, and the order that the original shuffles them into.

    Equal to create_training_instances of create_pretraining_data.py, draw for draw.
    """
    documents, instances = list(corpus.documents), Instances(corpus, rules)
    draws.shuffle(documents)
    for _ in range(rules.dupe_factor):
        for index in range(len(documents)):
            rules.cut(documents, index, instances, draws)
    order = list(range(len(instances.next_sentence_labels)))
    draws.shuffle(order)
    return instances, np.array(order, dtype=np.int64)


def ramps(starts: NDArray[np.int64], offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Ranges end to end: range i starts at `starts[i]`, [N], and has the length between two `offsets`, [N + 1]."""
    return np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], np.diff(offsets))


def _offsets(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(lengths)])


def _interleave(evens: NDArray[np.int64], odds: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.stack([evens, odds], axis=1).ravel()
