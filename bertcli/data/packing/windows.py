"""Windows over inputs that are longer than a model takes."""

from dataclasses import dataclass

import numpy as np

from bertcli.errors import UserError

MOST_TOKENS = 8192  # of a text in windows, which share a pass of training: as many as it takes on a CPU


@dataclass(frozen=True)
class WindowRules:
    """How long inputs are cut, or read in windows; `doc_stride` is the step from one window to the next, not their overlap."""

    max_seq_length: int = 384
    doc_stride: int = 128
    max_query_length: int = 64
    in_windows: bool = False  # texts; contexts and sentences always are
    max_answer_length: int = 30  # of a predicted answer, in tokens

    def __post_init__(self) -> None:
        if self.max_query_length and self.max_seq_length <= self.max_query_length + 3:
            length, query = self.max_seq_length, self.max_query_length
            what = f"--max-seq-length {length} leaves no room beside a question of {query} tokens."
            raise UserError(what, f"Give --max-seq-length {query + 4} or more, or a smaller --max-query-length.")

    @property
    def limit_in_words(self) -> str:
        """How long texts in windows may be without being cut, in words."""
        windows = f"{self.most_windows} windows of {self.max_seq_length} tokens"
        return f"{windows} (of a pair, the shorter text: half a window)"

    @property
    def most_windows(self) -> int:
        """Maximum number of windows of a text; what is beyond them is cut."""
        return max(1, MOST_TOKENS // self.max_seq_length)


def window_spans(count: int, room: int, doc_stride: int) -> list[tuple[int, int]]:
    """Start and length of the windows over `count` tokens."""
    last = -(-max(0, count - room) // min(room, doc_stride))  # number of the window that reaches the end
    starts = range(0, (last + 1) * min(room, doc_stride), min(room, doc_stride)) if count else ()
    return [(start, min(count - start, room)) for start in starts]


def max_context_windows(count: int, spans: list[tuple[int, int]]) -> list[int]:
    """For each token the window that shows it with the most context on its poorer side; the first on a tie."""
    best, chosen = np.full(count, -np.inf), np.zeros(count, dtype=np.int64)
    for number, (start, length) in enumerate(spans):
        here, left = slice(start, start + length), np.arange(length)
        score = np.minimum(left, length - 1 - left) + 0.01 * length
        better = score > best[here]
        best[here][better], chosen[here][better] = score[better], number
    return chosen.tolist()
