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
    from bertcli.objectives.objective import Targets

# N rows, L tokens of each, C tokens of a part of it

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
END_OF_DOCUMENT = "<eod>"
BEFORE = ("ids_before", "own_ranks_before", "ranks_before")
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
        order = uniform(key, *np.broadcast_arrays(rows[:, None], np.arange(length)[part])).argsort(1)
        own, ranks, is_target = local_order(is_special[:, part], is_masked[:, part], order)
        after = 2 * length * half  # the ranks of the first half
        found.append((own + after, ranks + after, is_target))
    own, ranks, is_target = (np.concatenate(parts, axis=1) for parts in zip(*found, strict=True))
    return own, ranks, is_target


@dataclass(frozen=True)
class PermutationObjective(Objective):
    """Its part reads the states of predictions, which are a stream of their own beside those of the tokens.

    The memory of a row is the hidden states of the preceding row in its stream, recomputed with the current weights. The
    original keeps those that older weights made, so that it takes rows in order and as many as there are streams; here rows
    are shuffled, batches are of any size, and a run that is resumed has nothing more to restore.
    """

    def pack(self, examples: PretrainingExamples, rows: Ints, key: int) -> PackedBatch:
        """Pack rows with what is predicted of them in the step `key`, and in which order."""
        import torch

        from bertcli.data.packing.batches import pack

        read, own, ranks, is_target = _ordered(examples, rows, key)
        positions = np.flatnonzero(is_target)
        targets = {
            "masked_lm_ids": read.input_ids[positions],
            "masked_lm_positions": positions,
            "predictions": is_target.sum(1),
            "own_ranks": own.ravel(),
            "ranks": ranks.ravel(),
            "directions": _is_backwards(examples, rows).astype(np.int64),
        }
        if self.memory:
            targets |= _before(examples, rows, key)
        labels = {name: torch.from_numpy(values) for name, values in targets.items()}
        batch = pack(read.input_ids, read.token_type_ids, read.lengths, rows)
        return replace(batch, labels=labels, counts={part.name: len(positions) for part in self.parts})

    def outputs(self, model: PreTrainedModel, batch: PackedBatch) -> dict[str, Tensor]:
        """The logits of what is predicted, [R, V]."""
        from bertcli.models.own.permuted import Predictions
        from bertcli.models.own.two_streams import predict, remember

        labels = batch.labels
        positions, counts = labels["masked_lm_positions"], tuple(labels["predictions"].tolist())
        order = Predictions(positions, batch.position_ids[positions], counts, labels["own_ranks"], labels["ranks"])
        memory: list[Tensor] = []
        if self.memory:
            before = remember(model, batch, tuple(labels[name] for name in BEFORE), labels["directions"])
            memory = [states[:, -self.memory :] * labels["has_row_before"][:, None, None] for states in before]
        hidden = predict(model, batch, order, memory, labels["directions"])
        return {part.name: part.head(model, hidden) for part in self.parts}


def _ordered(examples: PretrainingExamples, rows: Ints, key: int) -> tuple[UnpackedRows, Ints, Ints, Flags]:
    """Rows with the order of their tokens in the step `key`; see `orders_of_rows`."""
    read, shape = examples.take(rows, key), (len(rows), examples.max_seq_length)
    is_special = np.isin(read.input_ids, [read.rules.sep_id, read.rules.cls_id]).reshape(shape)
    is_masked = _masks(examples, read).reshape(shape)
    return read, *orders_of_rows(is_special, is_masked, rows, derive(read.key, ORDER_STREAM))


def _before(examples: PretrainingExamples, rows: Ints, key: int) -> Targets:
    """What the row before each in its stream has for it, [N, L / 2], and whether there is one, [N]."""
    has_row, length = _in_shard(examples, rows) >= STREAMS, examples.max_seq_length
    read, *order, _ = _ordered(examples, np.where(has_row, rows - STREAMS, rows), key)
    ids, own, ranks = (each.reshape(-1, length)[:, : length // 2] for each in (read.input_ids, *order))
    return {**dict(zip(BEFORE, (ids, own, ranks), strict=True)), "has_row_before": has_row.astype(np.int64)}


def _masks(examples: PretrainingExamples, read: UnpackedRows) -> Flags:
    """Which tokens are chosen to be predicted, [T]: by the data, else drawn by (seed, step, row)."""
    if read.masks is not None:
        found = np.zeros(len(read.input_ids), dtype=bool)
        found[read.masks[0]] = True
        return found
    length = examples.max_seq_length
    rules = _rules(examples.tokenizer, read.rules, length)
    draws = (np.random.RandomState(derive(read.key, row) % 2**32) for row in read.rows.tolist())
    rows = zip(read.input_ids.reshape(-1, length), draws, _is_backwards(examples, read.rows).tolist(), strict=True)
    return np.concatenate([sample_row(ids, rules, drawn, is_backwards) for ids, drawn, is_backwards in rows])


def _is_backwards(examples: PretrainingExamples, rows: Ints) -> Flags:
    """Whether each row was read backwards: a row of each stream follows another."""
    return np.asarray(_in_shard(examples, rows) % STREAMS >= STREAMS // 2)


def _in_shard(examples: PretrainingExamples, rows: Ints) -> Ints:
    """The number of each row in its shard."""
    starts = np.asarray(examples.starts)
    return np.asarray(rows - starts[np.searchsorted(starts, rows, side="right") - 1])


PERMUTATION_LM = PermutationObjective(
    "permutation-lm",
    (replace(MASKED_LM, head=lambda model, hidden: model.lm_loss(hidden)),),
    cut_streams,
    fits=lambda model: hasattr(model.base_model, "mask_emb") and hasattr(model, "lm_loss"),
    has_memory=True,
    ignored=("short_seq_prob", "whole_word_mask", "span_mask", "ngram_mask", "mask_shares"),
)
