"""Permutation language modelling: predict tokens in a random order, each from those before it in that order (XLNet)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bertcli.data.packing.keyed import derive, uniform
from bertcli.data.pretraining.masking import KEPT, MaskingRules
from bertcli.data.pretraining.streams import STREAMS, StreamRules, begins_word, make_rows, sample_row, stream_of
from bertcli.objectives.masked_lm import MASKED_LM
from bertcli.objectives.objective import Objective

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

    from bertcli.data.packing.batches import PackedBatch
    from bertcli.data.pretraining.draws import Draws
    from bertcli.data.pretraining.instances import Instances
    from bertcli.data.pretraining.shards import PretrainingExamples, UnpackedRows
    from bertcli.data.text.tokenization import WordPiece

# N rows, L tokens of each, C tokens of a part of it

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
END_OF_DOCUMENT = "<eod>"
ORDER_STREAM = 2  # separates the draws of orders from those of masks


def cut_streams(instances: Instances, draws: Draws) -> list[int]:
    """Cut the text into rows that continue each other, once in each pass over it; they stay in the order of the text."""
    rules = instances.rules
    tokenizer, length = rules.tokenizer, rules.max_seq_length
    ids, sentences = stream_of(instances.corpus, tokenizer.vocab.get(END_OF_DOCUMENT))
    of_streams = _rules(tokenizer, rules.masking, length)
    for _ in range(rules.dupe_factor):
        for row in make_rows(ids, sentences, of_streams, draws.numpy, draws):
            places = np.flatnonzero(row.is_masked).tolist()
            masks = (places, [KEPT] * len(places))
            instances.add_tokens(row.input_ids.tolist(), row.token_type_ids.tolist(), int(not row.follows), masks)
    return list(range(len(instances.next_sentence_labels)))


def _rules(tokenizer: WordPiece, masking: MaskingRules, length: int) -> StreamRules:
    begins = np.array([begins_word(token) for token in tokenizer.tokens])
    return StreamRules(masking.sep_id, masking.cls_id, begins, length, length // 2, masking.num_to_predict(length))


def local_order(is_special: Flags, is_masked: Flags, order: Ints) -> tuple[Ints, Ints, Flags]:
    """A random order of the tokens in parts of rows, [N, C]: their own ranks, their ranks, and which are predicted.

    A token does not see those whose rank is its own rank or higher. `order`, [N, B], has a permutation of B places for each
    row; it is that of each run of B tokens, of which a later one comes later. What is not predicted comes first, and all
    see it; <sep> and <cls> have a place in the order, but are not predicted. (_local_perm of data_utils.py)
    """
    count, size = is_masked.shape[1], order.shape[1]
    place = (np.arange(0, count, size)[:, None] + order[:, None]).reshape(is_masked.shape)
    is_target = is_masked & ~is_special
    ranks = np.where(is_masked | is_special, place, -1)
    return np.where(is_target, ranks, ranks + 1), ranks, is_target


def orders_of_rows(is_special: Flags, is_masked: Flags, rows: Ints, key: int) -> tuple[Ints, Ints, Flags]:
    """As `local_order`, of whole rows, [N, L], by draws that depend on `key` and the row alone.

    The halves have an order each: the first sees nothing of the second, the second all of the first.
    """
    length = is_masked.shape[1]
    found = []
    for half, part in enumerate((slice(length // 2), slice(length // 2, length))):
        places = np.arange(length)[part]
        order = uniform(key, *np.broadcast_arrays(rows[:, None], places)).argsort(1)
        own, ranks, is_target = local_order(is_special[:, part], is_masked[:, part], order)
        after = 2 * length * half  # the ranks of the first half
        found.append((own + after, ranks + after, is_target))
    own, ranks, is_target = (np.concatenate(parts, axis=1) for parts in zip(*found, strict=True))
    return own, ranks, is_target


@dataclass(frozen=True)
class PermutationObjective(Objective):
    """Its part reads the states of predictions, which are a stream of their own beside those of the tokens."""

    def pack(self, examples: PretrainingExamples, rows: Ints, key: int) -> PackedBatch:
        """Pack rows with what is predicted of them in the step `key`, and in which order."""
        import torch

        from bertcli.data.packing.batches import pack

        read, length = examples.take(rows, key), examples.max_seq_length
        shape, special = (len(rows), length), [read.rules.sep_id, read.rules.cls_id]
        is_masked = _masks(examples, read).reshape(shape)
        is_special = np.isin(read.input_ids, special).reshape(shape)
        own, ranks, is_target = orders_of_rows(is_special, is_masked, rows, derive(read.key, ORDER_STREAM))
        positions = np.flatnonzero(is_target)
        targets = {
            "masked_lm_ids": read.input_ids[positions],
            "masked_lm_positions": positions,
            "predictions": is_target.sum(1),
            "own_ranks": own.ravel(),
            "ranks": ranks.ravel(),
            "directions": _is_backwards(examples, rows).astype(np.int64),
        }
        labels = {name: torch.from_numpy(values) for name, values in targets.items()}
        batch = pack(read.input_ids, read.token_type_ids, read.lengths, rows)
        return replace(batch, labels=labels, counts={part.name: len(positions) for part in self.parts})

    def outputs(self, model: PreTrainedModel, batch: PackedBatch) -> dict[str, Tensor]:
        """The logits of what is predicted, [R, V]."""
        from bertcli.models.own.two_streams import Predictions, predict

        labels = batch.labels
        positions, counts = labels["masked_lm_positions"], tuple(labels["predictions"].tolist())
        places = batch.position_ids[positions]
        order = Predictions(positions, places, counts, labels["own_ranks"], labels["ranks"])
        hidden = predict(model, batch, order, directions=labels["directions"])
        return {part.name: part.head(model, hidden) for part in self.parts}


def _masks(examples: PretrainingExamples, read: UnpackedRows) -> Flags:
    """Which tokens are chosen to be predicted, [T]: by the data, else drawn by (seed, step, row)."""
    if read.masks is not None:
        found = np.zeros(len(read.input_ids), dtype=bool)
        found[read.masks[0]] = True
        return found
    length = examples.max_seq_length
    rules = _rules(examples.tokenizer, read.rules, length)
    rows = zip(read.input_ids.reshape(-1, length), read.rows.tolist(), _is_backwards(examples, read.rows), strict=True)
    masks = [
        sample_row(ids, rules, np.random.RandomState(derive(read.key, row) % 2**32), bool(is_backwards))
        for ids, row, is_backwards in rows
    ]
    return np.concatenate(masks)


def _is_backwards(examples: PretrainingExamples, rows: Ints) -> Flags:
    """Whether each row was read backwards: in a shard, a row of each stream follows another."""
    starts = np.asarray(examples.starts)
    in_shard = rows - starts[np.searchsorted(starts, rows, side="right") - 1]
    return np.asarray(in_shard % STREAMS >= STREAMS // 2)


PERMUTATION_LM = PermutationObjective(
    "permutation-lm",
    (replace(MASKED_LM, head=lambda model, hidden: model.lm_loss(hidden)),),
    cut_streams,
    fits=lambda model: hasattr(model.base_model, "mask_emb") and hasattr(model, "lm_loss"),
    ignored=("short_seq_prob", "whole_word_mask", "span_mask", "mask_shares"),
)
