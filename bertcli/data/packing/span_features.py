"""Questions with windows over long contexts as model inputs (convert_examples_to_features of run_squad.py)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np
import torch

from bertcli.data.labelled.squad import SpanExample
from bertcli.data.packing.batches import PackedBatch, pack
from bertcli.data.packing.ragged import Ints, Ragged, TokenRows, types_with_last
from bertcli.data.packing.windows import WindowRules, max_context_windows, window_spans
from bertcli.data.text.tokenization import WordPiece

Pieces = tuple[Sequence[str], Sequence[int]]  # tokens and their ids


@dataclass(frozen=True)
class Window:
    """One input, such as `[CLS] question [SEP] part of the context [SEP]`."""

    example: int
    tokens: list[str]
    input_ids: list[int]
    offset: int  # where the context starts in the input; [CLS] and everything before has type 0
    words: list[int]  # for each context token the word it is a piece of
    is_max_context: list[bool]  # whether no other window shows the token with more context
    start_position: int
    end_position: int
    no_answer: int  # the position of [CLS], which stands for no answer
    is_impossible: bool = False  # whether the question has no answer, in this window or another


@dataclass(frozen=True)
class SpanFeatures(TokenRows):
    """The windows of all questions, ready to be packed."""

    input_ids: Ragged
    windows: list[Window]
    training: bool
    last_type: int  # of the last token
    truncated: int  # questions that were longer than max_query_length and were cut
    max_answer_length: int  # of a prediction, in tokens

    @property
    def long_answers(self) -> int:
        """The number of training examples whose answer is longer than `max_answer_length`."""
        longest = self.max_answer_length
        return len({each.example for each in self.windows if each.end_position - each.start_position >= longest})

    def pack(self, rows: Ints, key: int) -> PackedBatch:
        """Pack the chosen windows."""
        ids, lengths = self.input_ids.take(rows)
        chosen = [self.windows[row] for row in rows]
        inside = np.arange(len(ids)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        types = (inside >= np.repeat([window.offset for window in chosen], lengths)).astype(np.int64)
        types = types_with_last(lengths, self.last_type, types)
        names = ("start_position", "end_position") if self.training else ()
        labels = {f"{name}s": torch.tensor([getattr(window, name) for window in chosen]) for name in names}
        if self.training:
            labels["is_impossible"] = torch.tensor([float(window.is_impossible) for window in chosen])
        return pack(ids, types, lengths, rows, labels, len(rows))


def encode_spans(examples: list[SpanExample], tokenizer: WordPiece, rules: WindowRules, training: bool) -> SpanFeatures:
    """Cut contexts into windows, tokenized word by word as the original does; in training mark the answer in each."""
    questions = tokenizer.encode([example.question for example in examples])
    words = sorted({word for example in examples for word in (*example.words, example.answer)})
    encoded = tokenizer.encode_words(words)
    pieces: dict[str, Pieces] = {word: (each.tokens, each.ids) for word, each in zip(words, encoded, strict=True)}
    limit, layout = rules.max_query_length, tokenizer.layout
    start, middle, end = _special_pieces(tokenizer)
    windows: list[Window] = []
    for index, (example, question) in enumerate(zip(examples, questions, strict=True)):
        asked = question.tokens[:limit], question.ids[:limit]
        before = (*start[0], *asked[0], *middle[0]), (*start[1], *asked[1], *middle[1])
        context = [pieces[word] for word in example.words]
        has_answer = training and not example.is_impossible
        answer = _answer_pieces(example, context, pieces[example.answer][0]) if has_answer else None
        found = _windows(index, (before, end), context, answer, rules)
        windows += (replace(each, is_impossible=example.is_impossible) for each in found)
    truncated = sum(len(question.ids) > limit for question in questions)
    rows = Ragged.from_lists([window.input_ids for window in windows])
    return SpanFeatures(rows, windows, training, layout.last_type, truncated, rules.max_answer_length)


def _special_pieces(tokenizer: WordPiece) -> Iterator[Pieces]:
    """The special tokens before, between and after question and context, by BERT's names."""
    names = {tokenizer.special("cls"): "[CLS]"}
    return (([names.get(id_, "[SEP]") for id_ in part], part) for part in tokenizer.layout.tokens)


def _windows(
    index: int, around: tuple[Pieces, Pieces], context: list[Pieces], answer: tuple[int, int] | None, rules: WindowRules
) -> list[Window]:
    tokens = [token for word_tokens, _ in context for token in word_tokens]
    ids = [piece for _, word_ids in context for piece in word_ids]
    words = [word for word, (_, word_ids) in enumerate(context) for _ in word_ids]
    before, after = around
    offset = len(before[1])
    spans = window_spans(len(ids), rules.max_seq_length - offset - len(after[1]), rules.doc_stride)
    best = max_context_windows(len(ids), spans)
    made = []
    for number, (start, length) in enumerate(spans):
        here = slice(start, start + length)
        texts, numbers = [*before[0], *tokens[here], *after[0]], [*before[1], *ids[here], *after[1]]
        none, is_best = texts.index("[CLS]"), [chosen == number for chosen in best[here]]
        window = Window(index, texts, numbers, offset, words[here], is_best, none, none, none)
        # An answer that is not whole in the window counts as none: [CLS], in SQuAD 1.1 too.
        if answer and start <= answer[0] and answer[1] <= start + length - 1:
            window = replace(window, start_position=answer[0] - start + offset, end_position=answer[1] - start + offset)
        made.append(window)
    return made


def _answer_pieces(example: SpanExample, context: list[Pieces], answer: Sequence[str]) -> tuple[int, int]:
    """The first and last piece of the answer: its words, narrowed to the span that spells the answer exactly."""
    tokens = [token for word_tokens, _ in context for token in word_tokens]
    first = [0, *accumulate(len(word_tokens) for word_tokens, _ in context)]  # piece of each word
    start, end = first[example.start_word], first[example.end_word + 1] - 1
    wanted = " ".join(answer)
    for new_start in range(start, end + 1):
        for new_end in range(end, new_start - 1, -1):
            if " ".join(tokens[new_start : new_end + 1]) == wanted:
                return new_start, new_end
    return start, end
