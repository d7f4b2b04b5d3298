"""Permutation language modelling: predict tokens in a random order, each from those before it in that order (XLNet)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bertcli.data.packing.keyed import derive, uniform
from bertcli.data.pretraining.masking import KEPT
from bertcli.data.pretraining.streams import STREAMS, StreamRules, begins_word, make_rows, stream_of
from bertcli.objectives.objective import ObjectiveExamples

if TYPE_CHECKING:
    from bertcli.data.packing.batches import PackedBatch
    from bertcli.data.pretraining.draws import Draws
    from bertcli.data.pretraining.instances import Instances
    from bertcli.data.pretraining.shards import UnpackedRows
    from bertcli.objectives.objective import Targets

# N rows, L tokens of each, C tokens of a part of it

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
ORDER_STREAM = 2  # separates the draws of orders from those of masks


def rows_of_streams(instances: Instances, draws: Draws) -> list[int]:
    """Cut the text into rows, as often as it is passed over; their order is that of the text."""
    rules = instances.rules
    ids, sentences = stream_of(instances.corpus, rules.tokenizer.vocab.get("<eod>"))
    masking, length = rules.masking, rules.max_seq_length
    begins = np.array([begins_word(token) for token in rules.tokenizer.tokens])
    streams = StreamRules(
        masking.sep_id, masking.cls_id, begins, length, length // 2, predictions=masking.num_to_predict(length)
    )
    for _ in range(rules.dupe_factor):
        for row in make_rows(ids, sentences, streams, draws.numpy, draws):
            places = np.flatnonzero(row.is_masked).tolist()
            masks = (places, [KEPT] * len(places))
            instances.add_tokens(row.input_ids.tolist(), row.token_type_ids.tolist(), int(not row.follows), masks)
    return list(range(len(instances.next_sentence_labels)))


def local_order(is_special: Flags, is_masked: Flags, order: Ints) -> tuple[Ints, Ints, Flags]:
    """A random order of the tokens in parts of rows, [N, C]: their own ranks and their ranks, and which are predicted.

    A token does not see those whose rank is its own rank or higher. `order`, [N, B], has a permutation of each row's first B
    places, which is that of each later B too. What is not predicted comes first and is seen by all; <sep> and <cls> have a
    place in the order, are seen by what comes after them, and are not predicted. (_local_perm of data_utils.py)
    """
    count, size = is_masked.shape[1], order.shape[1]
    place = (np.arange(0, count, size)[:, None] + order[:, None]).reshape(len(order), -1)[:, :count]
    is_target = is_masked & ~is_special
    ranks = np.where(is_masked | is_special, place, -1)
    return np.where(is_target, ranks, ranks + 1), ranks, is_target


def orders_of_rows(
    ids: Ints, is_masked: Flags, rows: Ints, special: tuple[int, int], key: int
) -> tuple[Ints, Ints, Flags]:
    """As `local_order`, of whole rows, [N, L], by draws that depend on `key` and the row alone.

    The halves have an order each: the first sees nothing of the second, the second all of the first.
    """
    length = ids.shape[1]
    found = []
    for number, part in enumerate((slice(0, length // 2), slice(length // 2, length))):
        places = np.arange(length)[part]
        drawn = uniform(key, *np.broadcast_arrays(rows[:, None], places[None]))
        own, ranks, is_target = local_order(np.isin(ids[:, part], special), is_masked[:, part], drawn.argsort(1))
        later = number * 2 * length  # above all ranks of the first half
        found.append((own + later, ranks + later, is_target))
    own, ranks, is_target = (np.concatenate(parts, axis=1) for parts in zip(*found, strict=True))
    return own, ranks, is_target


@dataclass(frozen=True)
class PermutationExamples(ObjectiveExamples):
    """Rows of streams with an order of their tokens, ready to be packed."""

    def pack(self, rows: Ints, key: int) -> PackedBatch:
        """Pack rows with the orders of the step `key`."""
        import torch

        from bertcli.data.packing.batches import pack

        read, (part,) = self.examples.take(rows, key), self.objective.parts
        batch = pack(read.input_ids, read.token_type_ids, read.lengths, rows)
        labels = {name: torch.from_numpy(values) for name, values in self._targets(read).items()}
        return replace(batch, labels=labels, counts={part.name: len(labels[part.labels])})

    def _targets(self, read: UnpackedRows) -> Targets:
        length, rules = self.examples.max_seq_length, read.rules
        ids = read.input_ids.reshape(-1, length)
        is_masked = self._masks(read, ids)
        key, special = derive(read.key, ORDER_STREAM), (rules.sep_id, rules.cls_id)
        own, ranks, is_target = orders_of_rows(ids, is_masked, read.rows, special, key)
        positions = np.flatnonzero(is_target)
        return {
            "permutation_lm_ids": read.input_ids[positions],
            "permutation_lm_positions": positions,
            "permutation_lm_places": positions % length,
            "permutation_lm_counts": is_target.sum(1),
            "own_ranks": own.ravel(),
            "ranks": ranks.ravel(),
            "directions": self._places(read.rows) % STREAMS * 2 // STREAMS,
        }

    def _masks(self, read: UnpackedRows, ids: Ints) -> Flags:
        """Which tokens are to be predicted, [N, L]: by the masks of the data, else drawn by (seed, step, row)."""
        found = np.zeros(ids.size, bool)
        if read.masks is not None:
            found[read.masks[0]] = True
        return found.reshape(ids.shape)

    def _places(self, rows: Ints) -> Ints:
        """The number of each row within its shard."""
        starts = np.asarray(self.examples.starts)
        return rows - starts[np.searchsorted(starts, rows, side="right") - 1]
