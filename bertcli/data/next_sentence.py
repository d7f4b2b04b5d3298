"""Pairs of text for next-sentence prediction, made as create_pretraining_data.py makes them."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from bertcli.data.draws import Draws
from bertcli.data.masking import MaskingRules, mask_tokens

Document = list[list[int]]  # segments, each the ids of one line


@dataclass(frozen=True)
class InstanceRules:
    """How documents are cut into instances."""

    max_seq_length: int
    short_seq_prob: float
    next_sentence: bool
    static_masking: bool
    masking: MaskingRules


@dataclass
class Instances:
    """Instances in flat columns: ids end to end beside their lengths, two bytes a token."""

    input_ids: array[int] = field(default_factory=lambda: array("I"))
    lengths: array[int] = field(default_factory=lambda: array("I"))
    first_lengths: array[int] = field(default_factory=lambda: array("I"))  # [CLS] A [SEP]: tokens of type 0
    next_sentence_labels: array[int] = field(default_factory=lambda: array("B"))
    masked_lm_positions: array[int] = field(default_factory=lambda: array("I"))
    masked_lm_ids: array[int] = field(default_factory=lambda: array("I"))
    masked_lm_counts: array[int] = field(default_factory=lambda: array("I"))

    def __len__(self) -> int:
        """Number of instances."""
        return len(self.lengths)

    def add(self, ids: list[int], first_length: int, is_random_next: bool) -> None:
        """Append one instance that is not masked."""
        self.input_ids.extend(ids)
        self.lengths.append(len(ids))
        self.first_lengths.append(first_length)
        self.next_sentence_labels.append(is_random_next)

    def add_masks(self, positions: list[int], ids: list[int]) -> None:
        """Append the masks of the instance that was added last."""
        self.masked_lm_positions.extend(positions)
        self.masked_lm_ids.extend(ids)
        self.masked_lm_counts.append(len(positions))


def make_instances(
    documents: list[Document], rules: InstanceRules, dupe_factor: int, draws: Draws
) -> tuple[Instances, list[int]]:
    """Make all instances of the documents, and the order that the original shuffles them into.

    The documents are shuffled in place. Equal to create_training_instances, draw for draw.
    """
    order = list(range(len(documents)))
    draws.shuffle(order)
    documents[:] = [documents[index] for index in order]
    instances = Instances()
    make = _pairs_of_document if rules.next_sentence else _runs_of_document
    for _ in range(dupe_factor):
        for index in range(len(documents)):
            make(documents, index, rules, draws, instances)
    shuffled = list(range(len(instances)))
    draws.shuffle(shuffled)
    return instances, shuffled


def _target_length(rules: InstanceRules, longest: int, draws: Draws) -> int:
    """Drawn once a document: mostly the longest, sometimes shorter, so that the model sees short inputs too."""
    if draws.random() < rules.short_seq_prob:
        return draws.randint(2, longest)
    return longest


def _pairs_of_document(
    documents: list[Document], index: int, rules: InstanceRules, draws: Draws, instances: Instances
) -> None:
    """Cut a document into pairs A, B: B goes on after A, or comes from a random document."""
    document = documents[index]
    longest = rules.max_seq_length - 3
    target = _target_length(rules, longest, draws)
    chunk: Document = []
    length = 0
    position = 0
    while position < len(document):
        segment = document[position]
        chunk.append(segment)
        length += len(segment)
        if position == len(document) - 1 or length >= target:
            a_end = draws.randint(1, len(chunk) - 1) if len(chunk) >= 2 else 1
            tokens_a = list(chain.from_iterable(chunk[:a_end]))
            # A chunk of one segment has nothing left to follow it: always random, and no draw.
            is_random_next = len(chunk) == 1 or draws.random() < 0.5
            if is_random_next:
                tokens_b = _random_segments(documents, index, target - len(tokens_a), draws)
                position -= len(chunk) - a_end  # the unused half starts the next chunk
            else:
                tokens_b = list(chain.from_iterable(chunk[a_end:]))
            tokens_a, tokens_b = truncate_seq_pair(tokens_a, tokens_b, longest, draws)
            _add_instance(tokens_a, tokens_b, is_random_next, rules, draws, instances)
            chunk, length = [], 0
        position += 1


def _random_segments(documents: list[Document], index: int, target: int, draws: Draws) -> list[int]:
    """Segments from a random place of another document (after ten tries: of the same) until `target` tokens."""
    for _ in range(10):
        other = draws.randint(0, len(documents) - 1)
        if other != index:
            break
    document = documents[other]
    tokens: list[int] = []
    for segment in document[draws.randint(0, len(document) - 1) :]:
        tokens += segment
        if len(tokens) >= target:
            break
    return tokens


def truncate_seq_pair(
    tokens_a: list[int], tokens_b: list[int], longest: int, draws: Draws
) -> tuple[list[int], list[int]]:
    """Cut the longer of the two, at the front or the back by a coin, until both fit; on a tie the second is cut.

    Which side is cut does not depend on the coins, so all of them are thrown at once.
    """
    length_a, length_b = len(tokens_a), len(tokens_b)
    excess = length_a + length_b - longest
    if excess <= 0:
        return tokens_a, tokens_b
    first_is_a = length_a > length_b
    alone = min(excess, length_a - length_b if first_is_a else length_b - length_a + 1)  # cuts of the longer, in a row
    at_front = draws.coins(excess)
    cut = np.zeros(excess, dtype=bool)  # whether the first is cut
    cut[:alone] = first_is_a
    cut[alone + first_is_a :: 2] = True  # then both in turn
    count_a = int(np.count_nonzero(cut))
    front_a = int(np.count_nonzero(at_front & cut))
    front_b = int(np.count_nonzero(at_front)) - front_a
    return (
        tokens_a[front_a : length_a - (count_a - front_a)],
        tokens_b[front_b : length_b - (excess - count_a - front_b)],
    )


def _add_instance(
    tokens_a: list[int],
    tokens_b: list[int],
    is_random_next: bool,
    rules: InstanceRules,
    draws: Draws,
    instances: Instances,
) -> None:
    cls_id, sep_id = rules.masking.cls_id, rules.masking.sep_id
    ids = [cls_id, *tokens_a, sep_id, *tokens_b, sep_id] if tokens_b else [cls_id, *tokens_a, sep_id]
    if rules.static_masking:
        instances.add_masks(*mask_tokens(ids, rules.masking, draws))
    instances.add(ids, len(tokens_a) + 2, is_random_next)


def _runs_of_document(
    documents: list[Document], index: int, rules: InstanceRules, draws: Draws, instances: Instances
) -> None:
    """Without next-sentence prediction: fill each row with the document's text, whole segments where they fit."""
    longest = rules.max_seq_length - 2
    target = _target_length(rules, longest, draws)
    run: list[int] = []
    for segment in documents[index]:
        if run and len(run) + len(segment) > target:
            _add_instance(run, [], False, rules, draws, instances)
            run = []
        for start in range(0, len(segment), target):
            piece = segment[start : start + target]
            if len(run) + len(piece) > target:
                _add_instance(run, [], False, rules, draws, instances)
                run = []
            run = run + piece
    if run:
        _add_instance(run, [], False, rules, draws, instances)


def reorder(
    values: Sequence[int], counts: Sequence[int], order: Sequence[int]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Bring flat rows into another order.

    Args:
        values: all rows end to end.
        counts: values a row, [N].
        order: for each new place the row that goes there, [N].

    Returns:
        The values in the new order and the offsets of its rows, [N + 1].
    """
    flat, sizes, rows = np.asarray(values), np.asarray(counts, dtype=np.int64), np.asarray(order, dtype=np.int64)
    starts = np.cumsum(sizes) - sizes
    taken = sizes[rows]
    offsets = np.concatenate([[0], np.cumsum(taken)])
    index = np.arange(offsets[-1]) + np.repeat(starts[rows] - offsets[:-1], taken)
    return flat[index], offsets
