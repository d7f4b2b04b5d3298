"""Pre-training instances as spans of a corpus, and the columns they are written as."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertcli.data.pretraining.draws import Draws
from bertcli.data.pretraining.masking import KEPT, MaskingRules, Masks, draw_masks
from bertcli.data.text.corpus import Corpus
from bertcli.data.text.layout import Layout
from bertcli.data.text.tokenization import WordPiece

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

    cut: Cut  # the objective's
    tokenizer: WordPiece
    layout: Layout  # of the texts of an instance
    masking: MaskingRules
    static_masking: bool
    max_seq_length: int
    short_seq_prob: float
    dupe_factor: int
    ends_lines: bool = False  # whether the text has [SEP] at the end of each line
    draw_masks: DrawMasks = draw_masks  # the static ones

    def target_length(self, longest: int, draws: Draws) -> int:
        """Draw the length of a document's instances: mostly the longest, sometimes shorter, to train on short inputs too."""
        return draws.randint(2, longest) if draws.random() < self.short_seq_prob else longest


class Instances:
    """The instances of a corpus in the order drawn: two spans of the corpus each, or tokens of their own, and the masks."""

    def __init__(self, corpus: Corpus, rules: InstanceRules) -> None:
        self.corpus, self.rules = corpus, rules
        self.spans, self.next_sentence_labels = array("I"), array("B")  # starts and ends of A and B; is B random?
        self.own_ids, self.own_types, self.own_offsets = array("I"), array("B"), array("Q", [0])  # of `add_tokens`
        self.places, self.replacements, self.mask_counts = array("H"), array("i"), array("H")
        self.cut_tokens = 0  # from tokens of their own, in all passes over the corpus

    def add(self, first: Span, second: Span, is_random_next: bool, draws: Draws) -> None:
        """Append A and B in the layout, `[CLS] A [SEP] B [SEP]`, or A alone where the second span is empty; draw its masks."""
        self.spans.extend((*first, *second))
        self.next_sentence_labels.append(is_random_next)
        if self.rules.static_masking:
            masking, layout = self.rules.masking, self.rules.layout
            has_second = second[1] > second[0]
            behind = layout.between if has_second else layout.after
            first_length = len(layout.before) + first[1] - first[0] + len(behind)
            length, ids = first_length + (second[1] - second[0] + len(layout.after) if has_second else 0), list[int]()
            if masking.reads_words or self.rules.draw_masks is not draw_masks:
                ids = [*layout.before, *self.corpus.tokens[slice(*first)].tolist()]
                if has_second:
                    ids += [*layout.between, *self.corpus.tokens[slice(*second)].tolist()]
                ids += layout.after
            self._add_masks(*self.rules.draw_masks(length, first_length, ids, masking, draws))

    def add_tokens(self, ids: Sequence[int], types: Sequence[int], label: int = 0, masks: Masks = ([], [])) -> None:
        """Append an instance of tokens that are no two spans of the corpus, special ones included, with its static masks."""
        self.own_ids.extend(ids)
        self.own_types.extend(types)
        self.own_offsets.append(len(self.own_ids))
        self.next_sentence_labels.append(label)
        if self.rules.static_masking:
            self._add_masks(*masks)

    def _add_masks(self, places: Sequence[int], replacements: Sequence[int]) -> None:
        self.places.extend(places)
        self.replacements.extend(replacements)
        self.mask_counts.append(len(places))

    def columns(self, order: NDArray[np.int64]) -> InstanceColumns:
        """The columns of the chosen instances, in that order."""
        ids, types, offsets = self._unmasked(order)
        labels = np.asarray(self.next_sentence_labels)[order]
        masked = self.mask_counts if self.rules.static_masking else [0] * len(self.next_sentence_labels)
        counts = np.asarray(masked, np.int64)
        mask_offsets = _offsets(counts[order])
        masks = ramps((np.cumsum(counts) - counts)[order], mask_offsets)  # [M] where each is in the flat columns
        row = np.repeat(np.arange(len(order)), counts[order])
        position = np.asarray(self.places)[masks] + offsets[row]  # among all tokens of these rows
        ascending = np.argsort(position)
        position, replacement = position[ascending], np.asarray(self.replacements)[masks[ascending]]
        originals = ids[position]
        ids[position] = np.where(replacement == KEPT, originals, replacement)
        return InstanceColumns(ids, types, offsets, labels, position - offsets[row], originals, mask_offsets)

    def unused_tokens(self) -> int:
        """How many tokens of the corpus are in no instance: they were cut from texts that are too long."""
        if not self.spans:
            return self.cut_tokens // self.rules.dupe_factor
        starts, ends = np.asarray(self.spans).reshape(-1, 2).T
        length = len(self.corpus.tokens) + 1
        begun = np.bincount(starts, minlength=length) - np.bincount(ends, minlength=length)
        return int((begun.cumsum()[:-1] == 0).sum())

    def _unmasked(self, order: NDArray[np.int64]) -> tuple[NDArray[np.uint32], NDArray[np.uint8], NDArray[np.int64]]:
        """Tokens, types and offsets of the chosen instances."""
        if len(self.own_offsets) > 1:
            bounds = np.asarray(self.own_offsets).astype(np.int64)
            offsets = _offsets(np.diff(bounds)[order])
            source = ramps(bounds[order], offsets)
            return np.asarray(self.own_ids, np.uint32)[source], np.asarray(self.own_types)[source], offsets
        before, between, after = (np.array(each) for each in self.rules.layout.tokens)
        first, first_end, second, second_end = np.asarray(self.spans).reshape(-1, 4)[order].astype(np.int64).T
        has_second = second_end > second
        first_lengths = len(before) + first_end - first  # of [CLS] A, without what follows
        lengths = first_lengths + np.where(has_second, len(between), len(after))
        second_lengths = np.where(has_second, second_end - second + len(after), 0)
        offsets, both = _offsets(lengths + second_lengths), _interleave(lengths, second_lengths)
        types = np.repeat(np.tile(np.array([0, self.rules.layout.second_type], np.uint8), len(order)), both)
        # The place of each token in the corpus; wrong for special tokens, which are overwritten.
        source = ramps(_interleave(first - len(before), second), _offsets(both))
        ids = self.corpus.tokens.take(source, mode="clip")
        starts, ends = offsets[:-1], offsets[1:]
        for place, token in enumerate(before):
            ids[starts + place] = token
        for place, token in enumerate(between):
            ids[(starts + first_lengths + place)[has_second]] = token
        for place, token in enumerate(after):
            ids[ends - len(after) + place] = token
        if not len(before) and len(after):
            types[ends - 1] = self.rules.layout.cls_type
        return ids, types, offsets


CutDocument = Callable[[list[Span], int, Instances, Draws], None]  # adds the instances of one of the documents
Cut = Callable[[Instances, Draws], list[int]]  # adds the instances of all documents; returns the order to write them in
DrawMasks = Callable[[int, int, list[int], MaskingRules, Draws], Masks]  # as `draw_masks`, but always given the ids


def make_instances(corpus: Corpus, rules: InstanceRules, draws: Draws) -> tuple[Instances, NDArray[np.int64]]:
    """Make all instances of the documents, and the order to write them in."""
    instances = Instances(corpus, rules)
    return instances, np.array(rules.cut(instances, draws), dtype=np.int64)


def each_document(cut: CutDocument, instances: Instances, draws: Draws) -> list[int]:
    """Cut each document apart, in random order, and shuffle the instances.

    Equal to create_training_instances of create_pretraining_data.py, draw for draw.
    """
    documents = list(instances.corpus.documents)
    draws.shuffle(documents)
    for _ in range(instances.rules.dupe_factor):
        for index in range(len(documents)):
            cut(documents, index, instances, draws)
    order = list(range(len(instances.next_sentence_labels)))
    draws.shuffle(order)
    return order


def ramps(starts: NDArray[np.int64], offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Ranges end to end: range i starts at `starts[i]`, [N], and has the length between two `offsets`, [N + 1]."""
    return np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], np.diff(offsets))


def _offsets(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(lengths)])


def _interleave(evens: NDArray[np.int64], odds: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.stack([evens, odds], axis=1).ravel()
