"""Texts with what may follow them as model inputs: a pair a choice, as the paper does for SWAG (section 4.4)."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from bertcli.data.labelled.examples import TextExamples
from bertcli.data.packing.batches import PackedBatch, longest_first
from bertcli.data.packing.text_features import TextFeatures, encode_texts
from bertcli.data.text.tokenization import WordPiece

# E examples of the batch, C choices an example


@dataclass(frozen=True)
class ChoiceFeatures:
    """Examples whose choices are sequences: those of one example stand together in `sequences`, and in a batch."""

    sequences: TextFeatures
    choices: int  # of each example
    labels: NDArray[np.int64] | None

    @property
    def truncated(self) -> int:
        """How many sequences were longer and were cut."""
        return self.sequences.truncated

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens an example, over its choices, [examples]."""
        totals: NDArray[np.int64] = self.sequences.lengths.reshape(-1, self.choices).sum(axis=1)
        return totals

    def pack(self, rows: NDArray[np.int64], key: int) -> PackedBatch:
        """Pack the chosen examples; `choice_sequences`, [E, C], says which sequence of the batch each choice is."""
        sequences = (rows[:, None] * self.choices + np.arange(self.choices)).ravel()  # [E * C]
        order = longest_first(np.arange(len(sequences)), self.sequences.lengths[sequences])
        places = np.argsort(order).reshape(-1, self.choices)  # [E, C]
        labels = {"choice_sequences": torch.from_numpy(places)}
        if self.labels is not None:
            labels["labels"] = torch.from_numpy(self.labels[rows])
        packed = self.sequences.pack(sequences[order], key)
        return replace(packed, rows=rows, labels=labels, counts={"loss": len(rows)})


def encode_choices(
    examples: TextExamples, tokenizer: WordPiece, max_seq_length: int, labels: NDArray[np.int64] | None
) -> ChoiceFeatures:
    """Put each text before each of its choices: `[CLS] text [SEP] choice [SEP]`."""
    assert examples.choices is not None
    count = len(examples.choices[0]) if examples.choices else 1
    texts = [text for text in examples.texts for _ in range(count)]
    pairs = [choice for choices in examples.choices for choice in choices]
    sequences = encode_texts(TextExamples(texts, pairs, origin=examples.origin), tokenizer, max_seq_length, None)
    return ChoiceFeatures(sequences, count, labels)
