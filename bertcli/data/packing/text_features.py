"""Texts and pairs as model inputs, cut as run_classifier.py cuts them."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bertcli.data.labelled.examples import TextExamples
from bertcli.data.packing.batches import PackedBatch, pack
from bertcli.data.packing.ragged import Ragged, TokenRows
from bertcli.data.text.tokenization import WordPiece

Numbers = NDArray[np.float32] | NDArray[np.int64]


@dataclass(frozen=True)
class TextFeatures(TokenRows):
    """Encoded texts: `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`, with labels as numbers where they are known."""

    input_ids: Ragged
    token_type_ids: Ragged
    labels: Numbers | None
    truncated: int  # how many were longer and were cut
    class_weights: NDArray[np.float32] | None = None  # [classes] what an example of each counts in the loss

    def pack(self, rows: NDArray[np.int64], key: int) -> PackedBatch:
        """Pack the chosen rows."""
        ids, lengths = self.input_ids.take(rows)
        types, _ = self.token_type_ids.take(rows)
        labels = {} if self.labels is None else {"labels": torch.from_numpy(self.labels[rows])}
        count: float = len(rows)
        if self.class_weights is not None:
            labels["weights"] = torch.from_numpy(self.class_weights)[labels["labels"]]
            count = float(labels["weights"].double().sum())
        return replace(pack(ids, types, lengths, rows), labels=labels, counts={"loss": count})


def balanced_weights(labels: NDArray[Any], classes: int) -> NDArray[np.float32]:
    """The weight of each class: examples / (classes that occur × its count), as scikit-learn's `balanced`; 0 without any."""
    counts = np.bincount(labels, minlength=classes)
    weights = np.zeros(classes, dtype=np.float32)
    weights[counts > 0] = len(labels) / (np.count_nonzero(counts) * counts[counts > 0])
    return weights


def encode_texts(
    examples: TextExamples, tokenizer: WordPiece, max_seq_length: int, labels: Numbers | None
) -> TextFeatures:
    """Tokenize texts and put them together as convert_single_example does.

    A second text without tokens is no second text. Too long pairs lose tokens at the end of the longer, the second
    if they are equally long.
    """
    first = tokenizer.encode_ids(examples.texts)
    second = tokenizer.encode_ids(examples.pairs) if examples.pairs is not None else [[]] * len(first)
    cls_id, sep_id = tokenizer.special("cls"), tokenizer.special("sep")
    between = [sep_id] * tokenizer.pair_separators
    input_ids, types, truncated = [], [], 0
    for tokens_a, tokens_b in zip(first, second, strict=True):
        kept_a, kept_b = cut_pair(len(tokens_a), len(tokens_b), max_seq_length - 2 - (len(between) if tokens_b else 0))
        truncated += kept_a + kept_b < len(tokens_a) + len(tokens_b)
        ids = [cls_id, *tokens_a[:kept_a], *(between if tokens_b else [sep_id])]
        types.append([0] * len(ids) + [1] * (kept_b + 1 if tokens_b else 0))
        input_ids.append([*ids, *tokens_b[:kept_b], sep_id] if tokens_b else ids)
    return TextFeatures(Ragged.from_lists(input_ids), Ragged.from_lists(types), labels, truncated)


def cut_pair(length_a: int, length_b: int, longest: int) -> tuple[int, int]:
    """How much of each text is kept: tokens are dropped from the longer one, the second on a tie."""
    while length_a + length_b > longest:
        if length_a > length_b:
            length_a -= 1
        else:
            length_b -= 1
    return length_a, length_b
