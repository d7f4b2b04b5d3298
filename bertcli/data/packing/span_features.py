"""Questions with windows over long contexts as model inputs (convert_examples_to_features of run_squad.py)."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from bertcli.data.labelled.squad import SpanExample
from bertcli.data.packing.batches import PackedBatch, pack
from bertcli.data.packing.ragged import Ragged, TokenRows
from bertcli.data.packing.windows import WindowRules, max_context_windows, window_spans
from bertcli.data.text.tokenization import WordPiece


@dataclass(frozen=True)
class Window:
    """One input: `[CLS] question [SEP] part of the context [SEP]`."""

    example: int
    tokens: list[str]
    input_ids: list[int]
    offset: int  # where the context starts in the input; [CLS] and everything before has type 0
    words: list[int]  # for each context token the word it is a piece of
    is_max_context: list[bool]  # whether no other window shows the token with more context
    start_position: int = 0
    end_position: int = 0


@dataclass(frozen=True)
class SpanFeatures(TokenRows):
    """The windows of all questions, ready to be packed."""

    input_ids: Ragged
    windows: list[Window]
    training: bool
    truncated: int  # questions that were longer than max_query_length and were cut

    def pack(self, rows: NDArray[np.int64], key: int) -> PackedBatch:
        """Pack the chosen windows."""
        ids, lengths = self.input_ids.take(rows)
        chosen = [self.windows[row] for row in rows]
        offsets = np.array([window.offset for window in chosen])
        inside = np.arange(len(ids)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        types = (inside >= np.repeat(offsets, lengths)).astype(np.int64)
        labels = {}
        if self.training:
            labels["start_positions"] = torch.tensor([window.start_position for window in chosen])
            labels["end_positions"] = torch.tensor([window.end_position for window in chosen])
        return replace(pack(ids, types, lengths, rows), labels=labels, counts={"loss": len(rows)})


def encode_spans(examples: list[SpanExample], tokenizer: WordPiece, rules: WindowRules, training: bool) -> SpanFeatures:
    """Cut every question's context into windows; in training mark the answer in each."""
    questions = tokenizer.encode([example.question for example in examples])
    pieces = _WordPieces(tokenizer)
    windows: list[Window] = []
    truncated = 0
    for index, (example, question) in enumerate(zip(examples, questions, strict=True)):
        truncated += len(question.ids) > rules.max_query_length
        query = (question.tokens[: rules.max_query_length], question.ids[: rules.max_query_length])
        windows += _windows(index, example, query, pieces, rules, training)
    input_ids = Ragged.from_lists([window.input_ids for window in windows])
    return SpanFeatures(input_ids, windows, training, truncated)


class _WordPieces:
    """The pieces of words, each word tokenized by itself, as the original does, and once."""

    def __init__(self, tokenizer: WordPiece) -> None:
        self.tokenizer = tokenizer
        self.cls_id, self.sep_id = tokenizer.special("cls"), tokenizer.special("sep")
        self.between = tokenizer.pair_separators
        self._known: dict[str, tuple[list[str], list[int]]] = {}

    def __call__(self, words: list[str]) -> list[tuple[list[str], list[int]]]:
        new = list({word for word in words if word not in self._known})
        for word, encoding in zip(new, self.tokenizer.encode_words(new), strict=True):
            self._known[word] = (encoding.tokens, encoding.ids)
        return [self._known[word] for word in words]


def _windows(
    index: int,
    example: SpanExample,
    query: tuple[list[str], list[int]],
    pieces: _WordPieces,
    rules: WindowRules,
    training: bool,
) -> list[Window]:
    tokens: list[str] = []
    ids: list[int] = []
    words: list[int] = []  # of each piece
    first_piece: list[int] = []  # of each word
    for word, (word_tokens, word_ids) in enumerate(pieces(example.words)):
        first_piece.append(len(ids))
        tokens += word_tokens
        ids += word_ids
        words += [word] * len(word_ids)
    answer = _answer_pieces(example, tokens, first_piece, pieces) if training and not example.is_impossible else None
    room = rules.max_seq_length - len(query[1]) - 2 - pieces.between
    offset = len(query[1]) + 1 + pieces.between
    spans = window_spans(len(ids), room, rules.doc_stride)
    best = max_context_windows(len(ids), spans)
    made = []
    for number, (start, length) in enumerate(spans):
        here = slice(start, start + length)
        window = Window(
            index,
            ["[CLS]", *query[0], *["[SEP]"] * pieces.between, *tokens[here], "[SEP]"],
            [pieces.cls_id, *query[1], *[pieces.sep_id] * pieces.between, *ids[here], pieces.sep_id],
            offset,
            words[here],
            [chosen == number for chosen in best[here]],
        )
        # An answer that is not whole in the window counts as none: [CLS], in SQuAD 1.1 too.
        if answer and start <= answer[0] and answer[1] <= start + length - 1:
            window = replace(window, start_position=answer[0] - start + offset, end_position=answer[1] - start + offset)
        made.append(window)
    return made


def _answer_pieces(
    example: SpanExample, tokens: list[str], first_piece: list[int], pieces: _WordPieces
) -> tuple[int, int]:
    """The first and last piece of the answer: its words, narrowed to the span that spells the answer exactly."""
    start = first_piece[example.start_word]
    end = first_piece[example.end_word + 1] - 1 if example.end_word + 1 < len(first_piece) else len(tokens) - 1
    wanted = " ".join(pieces([example.answer])[0][0])
    for new_start in range(start, end + 1):
        for new_end in range(end, new_start - 1, -1):
            if " ".join(tokens[new_start : new_end + 1]) == wanted:
                return new_start, new_end
    return start, end
