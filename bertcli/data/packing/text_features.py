"""Texts, pairs, choices and texts with `[MASK]` as model inputs, cut as run_classifier.py cuts them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from bertcli.data.labelled.examples import TextExamples
from bertcli.data.packing.batches import Labels, PackedBatch, longest_first, pack
from bertcli.data.packing.keyed import rows_of_step
from bertcli.data.packing.ragged import Ints, Ragged, TokenRows, places_in_batch, types_with_last
from bertcli.data.text.tokenization import WordPiece

Numbers = NDArray[np.float32] | Ints
MASK = "[MASK]"  # as a person writes it, whatever the model's own mask is called

# E examples of the batch, C choices an example


@dataclass(frozen=True)
class TextFeatures(TokenRows):
    """Encoded texts: `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`, with labels as numbers where they are known."""

    input_ids: Ragged
    token_type_ids: Ragged
    labels: Numbers | None
    truncated: int  # how many were longer and were cut
    class_weights: NDArray[np.float32] | None = None  # [classes] weight of an example of each in the loss
    cut_share: float = 0.0  # of the tokens of all texts

    def pack(self, rows: Ints, key: int) -> PackedBatch:
        """Pack the chosen rows."""
        ids, lengths = self.input_ids.take(rows)
        types, _ = self.token_type_ids.take(rows)
        return pack(ids, types, lengths, rows, *self.targets(rows))

    def targets(self, rows: Ints) -> tuple[Labels, float]:
        """Labels and weights of the chosen rows, and what their summed loss is divided by."""
        labels = {} if self.labels is None else {"labels": torch.from_numpy(self.labels[rows])}
        count: float = len(rows)
        if self.class_weights is not None:
            labels["weights"] = torch.from_numpy(self.class_weights)[labels["labels"]]
            count = float(labels["weights"].double().sum())
        return labels, count


def balanced_weights(labels: NDArray[Any], classes: int) -> NDArray[np.float32]:
    """The weight of each class: examples / (classes that occur × its count), as scikit-learn's `balanced`; 0 without any."""
    counts = np.bincount(labels, minlength=classes)
    weights = np.zeros(classes, dtype=np.float32)
    weights[counts > 0] = len(labels) / (np.count_nonzero(counts) * counts[counts > 0])
    return weights


class InputWriter:
    """Makes inputs of the tokens of texts, and counts what is cut."""

    def __init__(self, tokenizer: WordPiece, max_seq_length: int) -> None:
        self.tokenizer, self.max_seq_length = tokenizer, max_seq_length
        self.layout = tokenizer.layout
        self.input_ids: list[list[int]] = []
        self.types: list[list[int]] = []
        self.truncated, self.kept, self.all = 0, 0, 0  # texts; tokens

    def tokens_of(self, texts: TextExamples) -> Iterator[tuple[list[int], list[int], int]]:
        """The tokens of both texts of each example, the second's perhaps none, and how many tokens an input has for them."""
        first = self.tokenizer.encode_ids(texts.texts)
        second = self.tokenizer.encode_ids(texts.pairs) if texts.pairs is not None else [[]] * len(first)
        for tokens_a, tokens_b in zip(first, second, strict=True):
            yield tokens_a, tokens_b, self.layout.room(self.max_seq_length, bool(tokens_b))

    def add(self, tokens_a: list[int], tokens_b: list[int]) -> None:
        """Join two texts as convert_single_example does; a second text without tokens is no second text."""
        ids, types = self.layout.join(tokens_a, tokens_b)
        self.input_ids.append(ids)
        self.types.append(types)

    def count(self, kept: int, tokens: int) -> None:
        """Count the tokens of an example, and those that are kept."""
        self.truncated, self.kept, self.all = self.truncated + (kept < tokens), self.kept + kept, self.all + tokens

    def columns(self) -> dict[str, Any]:
        """What was made and counted, by the names of TextFeatures."""
        ids, types = Ragged.from_lists(self.input_ids), Ragged.from_lists(self.types)
        cut_share = (self.all - self.kept) / max(1, self.all)
        return {"input_ids": ids, "token_type_ids": types, "truncated": self.truncated, "cut_share": cut_share}


def encode_texts(
    texts: TextExamples, tokenizer: WordPiece, max_seq_length: int, labels: Numbers | None
) -> TextFeatures:
    """Tokenize and join texts; long ones are cut."""
    writer = InputWriter(tokenizer, max_seq_length)
    for tokens_a, tokens_b, room in writer.tokens_of(texts):
        kept_a, kept_b = cut_pair(len(tokens_a), len(tokens_b), room)
        writer.add(tokens_a[:kept_a], tokens_b[:kept_b])
        writer.count(kept_a + kept_b, len(tokens_a) + len(tokens_b))
    return TextFeatures(labels=labels, **writer.columns())


def cut_pair(length_a: int, length_b: int, longest: int) -> tuple[int, int]:
    """How much of each text is kept: tokens are dropped from the end of the longer one, the second on a tie."""
    while length_a + length_b > longest:
        is_first = length_a > length_b
        length_a, length_b = length_a - is_first, length_b - (not is_first)
    return length_a, length_b


@dataclass(frozen=True)
class ChoiceFeatures:
    """Examples whose choices are sequences: those of one example stand together in `sequences`, and in a batch."""

    sequences: TextFeatures
    choices: int  # of each example
    labels: Ints | None

    @property
    def input_ids(self) -> Ragged:
        """The tokens of the sequences."""
        return self.sequences.input_ids

    @property
    def truncated(self) -> int:
        """How many sequences were longer and were cut."""
        return self.sequences.truncated

    @cached_property
    def lengths(self) -> Ints:
        """Tokens an example, over its choices, [examples]."""
        return cast(Ints, self.sequences.lengths.reshape(-1, self.choices).sum(axis=1))

    def rows_of_step(self, seed: int, step: int, batch_size: int) -> Ints:
        """The examples of the batch of one step."""
        return rows_of_step(seed, step, batch_size, len(self.lengths))

    def pack(self, rows: Ints, key: int) -> PackedBatch:
        """Pack the chosen examples; `choice_sequences`, [E, C], says which sequence of the batch each choice is."""
        sequences = (rows[:, None] * self.choices + np.arange(self.choices)).ravel()  # [E * C]
        order = longest_first(np.arange(len(sequences)), self.sequences.lengths[sequences])
        labels = {"choice_sequences": torch.from_numpy(np.argsort(order).reshape(-1, self.choices))}
        if self.labels is not None:
            labels["labels"] = torch.from_numpy(self.labels[rows])
        return replace(self.sequences.pack(sequences[order], key), rows=rows, labels=labels, counts={"loss": len(rows)})


def encode_choices(
    examples: TextExamples, tokenizer: WordPiece, max_seq_length: int, labels: Ints | None
) -> ChoiceFeatures:
    """Put each text before each of its choices, `[CLS] text [SEP] choice [SEP]`, as for SWAG (BERT section 4.4)."""
    assert examples.choices is not None
    count = len(examples.choices[0]) if examples.choices else 1
    texts = [text for text in examples.texts for _ in range(count)]
    pairs = [choice for choices in examples.choices for choice in choices]
    sequences = encode_texts(TextExamples(texts, pairs, origin=examples.origin), tokenizer, max_seq_length, None)
    return ChoiceFeatures(sequences, count, labels)


@dataclass(frozen=True)
class MaskFeatures(TokenRows):
    """Texts as `[CLS] pieces [SEP]`, with masks among the pieces."""

    input_ids: Ragged
    places: Ragged  # of the masks of each text
    last_type: int = 0  # of the last token
    truncated: int = 0  # nothing is cut

    def pack(self, rows: Ints, key: int) -> PackedBatch:
        """Pack the chosen texts; `rows` of the batch names the text of each mask."""
        ids, lengths = self.input_ids.take(rows)
        positions, masks = places_in_batch(self.places, rows, lengths)
        labels = {"masked_lm_positions": torch.from_numpy(positions)}
        types = types_with_last(lengths, self.last_type)
        return replace(pack(ids, types, lengths, rows, labels), rows=np.repeat(rows, masks))


def encode_masks(text: str, tokenizer: WordPiece) -> tuple[list[int], list[int]]:
    """The token ids of a text, and the places of its masks among them."""
    *before, last = text.split(MASK)  # a mask stands for a word and the space before it, where tokens have such
    first, *others = tokenizer.encode_ids([*map(str.rstrip, before), last])
    ids, places = [*tokenizer.layout.before, *first], []
    for part in others:
        places.append(len(ids))
        ids += [tokenizer.special("mask"), *part]
    return [*ids, *tokenizer.layout.after], places


def encode_masked_texts(texts: list[str], tokenizer: WordPiece) -> MaskFeatures:
    """Encode texts whose masks were checked."""
    ids, places = map(Ragged.from_lists, zip(*[encode_masks(text, tokenizer) for text in texts], strict=True))
    return MaskFeatures(ids, places, tokenizer.layout.last_type)
