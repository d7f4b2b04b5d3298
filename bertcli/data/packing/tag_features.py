"""Sentences of words as model inputs, in windows where they are long; each word is read off its first piece, once."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from bertcli.data.labelled.examples import Sentences
from bertcli.data.packing.batches import PackedBatch, pack
from bertcli.data.packing.ragged import Ragged, TokenRows
from bertcli.data.packing.windows import WindowRules, max_context_windows, window_spans
from bertcli.data.text.tokenization import WordPiece
from bertcli.errors import UserError


@dataclass(frozen=True)
class TagFeatures(TokenRows):
    """The windows of all sentences, `[CLS] pieces [SEP]`. The words read off them are those of the sentences, in order."""

    input_ids: Ragged
    places: Ragged  # where in a window stand the first pieces of the words that are read off it
    tags: Ragged | None  # of these words
    states: list[NDArray[np.float32]] | None = None  # of these words: hidden states of a BERT that is not trained
    truncated: int = 0  # nothing is cut

    def pack(self, rows: NDArray[np.int64], key: int) -> PackedBatch:
        """Pack the chosen windows."""
        ids, lengths = self.input_ids.take(rows)
        places, words = self.places.take(rows)
        labels = {"word_positions": torch.from_numpy(places + np.repeat(np.cumsum(lengths) - lengths, words))}
        if self.states is not None:
            last = np.cumsum(self.places.lengths)[rows]
            numbers = np.concatenate([np.arange(end - count, end) for end, count in zip(last, words, strict=True)])
            labels["states"] = torch.from_numpy(np.stack([self.states[number] for number in numbers]))
        if self.tags is not None:
            labels["labels"] = torch.from_numpy(self.tags.take(rows)[0])
        packed = pack(ids, np.zeros_like(ids), lengths, np.repeat(rows, words))
        return replace(packed, labels=labels, counts={"loss": len(places)})


def encode_sentences(
    sentences: Sentences, tokenizer: WordPiece, rules: WindowRules, labels: tuple[str, ...]
) -> TagFeatures:
    """Tokenize each word by itself; a word without pieces, such as a control character, is [UNK].

    Windows overlap by half at least, and each word is read off the window that shows the most around it.

    Raises:
        UserError: at the first tag that the task does not have.
    """
    tags = _tag_ids(sentences, labels)
    words = sorted({word for sentence in sentences.words for word in sentence})
    unknown = [tokenizer.special("unk")]
    encoded = [encoding.ids for encoding in tokenizer.encode_words(words)]
    pieces = {word: ids or unknown for word, ids in zip(words, encoded, strict=True)}
    room = rules.max_seq_length - 2
    stride = min(rules.doc_stride, max(1, room // 2))
    windows, places, read = [], [], []
    for number, sentence in enumerate(sentences.words):
        ids = [piece for word in sentence for piece in pieces[word]]
        first = np.cumsum([0, *(len(pieces[word]) for word in sentence)])[:-1]  # piece of each word
        spans = window_spans(len(ids), room, stride)
        chosen = np.array(max_context_windows(len(ids), spans))[first]  # window of each word, ascending
        bounds = np.searchsorted(chosen, np.arange(len(spans) + 1))
        for (start, length), begin, end in zip(spans, bounds[:-1], bounds[1:], strict=True):
            if begin < end:
                windows.append([tokenizer.special("cls"), *ids[start : start + length], tokenizer.special("sep")])
                places.append((first[begin:end] - start + 1).tolist())
                read.append(tags[number][begin:end] if tags is not None else [])
    known = Ragged.from_lists(read) if tags is not None else None
    return TagFeatures(Ragged.from_lists(windows), Ragged.from_lists(places), known)


def _tag_ids(sentences: Sentences, labels: tuple[str, ...]) -> list[list[int]] | None:
    if sentences.tags is None:
        return None
    number = {label: index for index, label in enumerate(labels)}
    for row, tags in enumerate(sentences.tags):
        strange = next((tag for tag in tags if tag not in number), None)
        if strange is not None:
            raise UserError(
                f"{sentences.place(row)}: the sentence has the tag `{strange}`, which the task has not.",
                f"Its tags: {', '.join(labels[:20])}.",
            )
    return [[number[tag] for tag in tags] for tags in sentences.tags]
