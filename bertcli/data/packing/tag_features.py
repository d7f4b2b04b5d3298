"""Sentences of words as model inputs, in windows where they are long; each word is read off its first piece, once."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from bertcli.data.labelled.examples import Sentences
from bertcli.data.packing.batches import PackedBatch, pack
from bertcli.data.packing.ragged import Ints, Ragged, TokenRows, places_in_batch, types_with_last
from bertcli.data.packing.windows import WindowRules, max_context_windows, window_spans
from bertcli.data.text.tokenization import WordPiece
from bertcli.errors import UserError


@dataclass(frozen=True)
class TagFeatures(TokenRows):
    """The windows of all sentences, `[CLS] pieces [SEP]`; the words read off them are those of the sentences, in order."""

    input_ids: Ragged
    places: Ragged  # in each window, of the first pieces of the words that are read off it
    tags: Ragged | None  # of these words
    last_type: int = 0  # of the last token
    states: list[NDArray[np.float32]] | None = None  # of these words: hidden states of a BERT that is not trained
    truncated: int = 0  # nothing is cut

    def pack(self, rows: Ints, key: int) -> PackedBatch:
        """Pack the chosen windows."""
        ids, lengths = self.input_ids.take(rows)
        positions, words = places_in_batch(self.places, rows, lengths)
        labels = {"word_positions": torch.from_numpy(positions)}
        if self.states is not None:
            last = np.cumsum(self.places.lengths)[rows]
            numbers = [n for end, count in zip(last, words, strict=True) for n in range(end - count, end)]
            labels["states"] = torch.from_numpy(np.stack([self.states[number] for number in numbers]))
        if self.tags is not None:
            labels["labels"] = torch.from_numpy(self.tags.take(rows)[0])
        types = types_with_last(lengths, self.last_type)
        return replace(pack(ids, types, lengths, rows, labels, len(positions)), rows=np.repeat(rows, words))


def encode_sentences(
    sentences: Sentences, tokenizer: WordPiece, rules: WindowRules, labels: tuple[str, ...]
) -> TagFeatures:
    """Tokenize each word by itself; a word without pieces, such as a control character, is [UNK].

    Windows overlap by half at least, and each word is read off the window that shows the most around it. Raises UserError
    at the first tag that the task does not have.
    """
    tags = _tag_ids(sentences, labels)
    pieces = _pieces(sentences, tokenizer)
    layout = tokenizer.layout
    room = layout.room(rules.max_seq_length)
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
                windows.append(layout.join(ids[start : start + length])[0])
                places.append((first[begin:end] - start + len(layout.before)).tolist())
                read.append(tags[number][begin:end] if tags is not None else [])
    known = Ragged.from_lists(read) if tags is not None else None
    return TagFeatures(Ragged.from_lists(windows), Ragged.from_lists(places), known, layout.last_type)


def _pieces(sentences: Sentences, tokenizer: WordPiece) -> dict[str, list[int]]:
    words, unknown = sorted({word for sentence in sentences.words for word in sentence}), [tokenizer.special("unk")]
    return {word: each.ids or unknown for word, each in zip(words, tokenizer.encode_words(words), strict=True)}


def _tag_ids(sentences: Sentences, labels: tuple[str, ...]) -> list[list[int]] | None:
    if sentences.tags is None:
        return None
    number = {label: index for index, label in enumerate(labels)}
    for row, tags in enumerate(sentences.tags):
        if strange := [tag for tag in tags if tag not in number]:
            what = f"{sentences.place(row)}: the sentence has the tag `{strange[0]}`, which is not a label of the task."
            raise UserError(what, f"Its tags: {', '.join(labels[:20])}.")
    return [[number[tag] for tag in tags] for tags in sentences.tags]
