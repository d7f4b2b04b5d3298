"""Long texts in windows: the output of a text is the mean over its windows, weighted by tokens."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch

from bertcli.data.labelled.examples import TextExamples
from bertcli.data.packing.batches import PackedBatch, longest_first, pack
from bertcli.data.packing.ragged import Ints
from bertcli.data.packing.text_features import InputWriter, Numbers, TextFeatures
from bertcli.data.packing.windows import WindowRules, window_spans
from bertcli.data.text.tokenization import WordPiece

# E texts of the batch, N windows


@dataclass(frozen=True, kw_only=True)
class WindowedFeatures(TextFeatures):
    """Encoded texts whose windows stand together, in `input_ids` and in a batch; the other columns have a row a text."""

    first: Ints  # [texts + 1] first window of each text, and the number of all windows
    tokens: Ints  # [windows] tokens of the text in each, by which its outputs are weighted

    @cached_property
    def window_lengths(self) -> Ints:
        """Tokens a window, [windows]."""
        return self.input_ids.lengths

    @cached_property
    def lengths(self) -> Ints:
        """Tokens a text, over its windows, [texts]."""
        return np.diff(np.concatenate([[0], np.cumsum(self.window_lengths)])[self.first])

    def pack(self, rows: Ints, key: int) -> PackedBatch:
        """Pack the chosen texts; `window_texts`, [N], is the text of each window in the batch, `window_shares`, [N], its weight."""
        windows = np.concatenate([np.arange(*self.first[row : row + 2]) for row in rows])  # [N]
        texts = np.repeat(np.arange(len(rows)), np.diff(self.first)[rows])  # [N]
        shares = self.tokens[windows] / np.bincount(texts, self.tokens[windows])[texts]
        order = longest_first(np.arange(len(windows)), self.window_lengths[windows])
        windows = windows[order]
        ids, lengths = self.input_ids.take(windows)
        types, _ = self.token_type_ids.take(windows)
        labels, count = self.targets(rows)
        labels["window_texts"] = torch.from_numpy(texts[order])
        labels["window_shares"] = torch.from_numpy(shares[order].astype(np.float32))
        return replace(pack(ids, types, lengths, windows, labels, count), rows=rows)


def encode_in_windows(
    texts: TextExamples, tokenizer: WordPiece, rules: WindowRules, labels: Numbers | None
) -> WindowedFeatures:
    """Tokenize texts, and read each in as many windows as it needs, at most `rules.most_windows`.

    Of a pair the longer text is read in windows, each beside the shorter one, which is cut to half of an input.
    """
    writer, first, tokens = InputWriter(tokenizer, rules.max_seq_length), [0], []
    for tokens_a, tokens_b, room in writer.tokens_of(texts):
        beside = min(len(tokens_a), len(tokens_b), room // 2)
        longer = max(len(tokens_a), len(tokens_b))
        spans = window_spans(longer, room - beside, rules.doc_stride)[: rules.most_windows] or [(0, 0)]
        for start, length in spans:
            part = slice(start, start + length)
            is_first = len(tokens_a) > len(tokens_b)
            writer.add(*((tokens_a[part], tokens_b[:beside]) if is_first else (tokens_a[:beside], tokens_b[part])))
            tokens.append(max(1, length))
        writer.count(beside + sum(spans[-1]), len(tokens_a) + len(tokens_b))
        first.append(len(tokens))
    return WindowedFeatures(labels=labels, first=np.array(first), tokens=np.array(tokens), **writer.columns())
