"""Pairs of text for next-sentence prediction, made as create_pretraining_data.py makes them."""

from bisect import bisect_left

import numpy as np
from numpy.typing import NDArray

from bertcli.config.data import MakePretrainingDataConfig
from bertcli.data.pretraining.draws import HEADS, Draws
from bertcli.data.pretraining.instances import Instances, Span
from bertcli.data.pretraining.masking import MaskingRules
from bertcli.data.text.corpus import Corpus


def make_instances(
    corpus: Corpus, config: MakePretrainingDataConfig, rules: MaskingRules, draws: Draws
) -> tuple[Instances, NDArray[np.int64]]:
    """Make all instances of the documents, and the order that the original shuffles them into.

    Equal to create_training_instances, draw for draw.
    """
    shuffled = list(range(len(corpus.documents)))
    draws.shuffle(shuffled)
    documents = [corpus.documents[index] for index in shuffled]
    instances = Instances(corpus, rules, config.masking == "static")
    make = _pairs_of_document if config.next_sentence else _runs_of_document
    for _ in range(config.dupe_factor):
        for index in range(len(documents)):
            make(documents, index, config, draws, instances)
    order = list(range(len(instances)))
    draws.shuffle(order)
    return instances, np.array(order, dtype=np.int64)


def _target_length(config: MakePretrainingDataConfig, longest: int, draws: Draws) -> int:
    """Drawn once a document: mostly the longest, sometimes shorter, so that the model sees short inputs too."""
    if draws.random() < config.short_seq_prob:
        return draws.randint(2, longest)
    return longest


def _pairs_of_document(
    documents: list[Span], index: int, config: MakePretrainingDataConfig, draws: Draws, instances: Instances
) -> None:
    """Cut a document into pairs A, B: B goes on after A, or comes from a random document."""
    bounds = instances.corpus.bounds
    position, last = documents[index]
    longest = config.max_seq_length - 3
    target = _target_length(config, longest, draws)
    while position < last:
        # A chunk: segments until the target is reached, or the document ends.
        chunk_end = bisect_left(bounds, bounds[position] + target, position + 1, last)
        segments = chunk_end - position
        a_end = position + (draws.randint(1, segments - 1) if segments >= 2 else 1)
        first = bounds[position], bounds[a_end]
        # A chunk of one segment has nothing left to follow it: always random, and no draw.
        is_random_next = segments == 1 or draws.random() < 0.5
        if is_random_next:
            second = _random_segments(documents, index, target - (first[1] - first[0]), bounds, draws)
            position = a_end  # the unused half starts the next chunk
        else:
            second = bounds[a_end], bounds[chunk_end]
            position = chunk_end
        instances.add(*truncate_pair(first, second, longest, draws), is_random_next, draws)


def _random_segments(documents: list[Span], index: int, target: int, bounds: list[int], draws: Draws) -> Span:
    """Segments from a random place of another document (after ten tries: of the same) until `target` tokens."""
    for _ in range(10):
        other = draws.randint(0, len(documents) - 1)
        if other != index:
            break
    start, last = documents[other]
    segment = draws.randint(start, last - 1)
    return bounds[segment], bounds[bisect_left(bounds, bounds[segment] + target, segment + 1, last)]


def truncate_pair(first: Span, second: Span, longest: int, draws: Draws) -> tuple[Span, Span]:
    """Cut the longer of the two, at the front or the back by a coin, until both fit; on a tie the second is cut.

    Which of the two is cut does not depend on the coins, so all of them are thrown at once: first for the longer one
    alone until both are equally long, then for both in turn.
    """
    length_a, length_b = first[1] - first[0], second[1] - second[0]
    excess = length_a + length_b - longest
    if excess <= 0:
        return first, second
    at_front = draws.coins(excess)
    if length_a > length_b:
        alone = min(excess, length_a - length_b)
        coins_a, coins_b = at_front[:alone] + at_front[alone + 1 :: 2], at_front[alone::2]
    else:
        alone = min(excess, length_b - length_a + 1)
        coins_a, coins_b = at_front[alone::2], at_front[:alone] + at_front[alone + 1 :: 2]
    return _cut(first, coins_a), _cut(second, coins_b)


def _cut(span: Span, at_front: bytes) -> Span:
    front = at_front.count(HEADS)
    return span[0] + front, span[1] - (len(at_front) - front)


def _runs_of_document(
    documents: list[Span], index: int, config: MakePretrainingDataConfig, draws: Draws, instances: Instances
) -> None:
    """Without next-sentence prediction: fill each row with the document's text, whole segments where they fit."""
    bounds = instances.corpus.bounds
    position, last = documents[index]
    target = _target_length(config, config.max_seq_length - 2, draws)
    start = bounds[position]
    for segment in range(position, last):
        for piece in range(bounds[segment], bounds[segment + 1], target):  # a longer segment is cut
            end = min(piece + target, bounds[segment + 1])
            whole = bounds[segment + 1] if piece == bounds[segment] else end
            if piece > start and (whole - start > target or end - start > target):
                instances.add((start, piece), (piece, piece), False, draws)
                start = piece
    instances.add((start, bounds[last]), (start, start), False, draws)
