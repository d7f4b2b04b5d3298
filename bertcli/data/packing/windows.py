"""Windows over inputs that are longer than a model takes."""

from dataclasses import dataclass

import numpy as np

from bertcli.errors import UserError


@dataclass(frozen=True)
class WindowRules:
    """How contexts are cut into windows; `doc_stride` is the step from one to the next, not their overlap."""

    max_seq_length: int = 384
    doc_stride: int = 128
    max_query_length: int = 64

    def __post_init__(self) -> None:
        if self.max_query_length and self.max_seq_length <= self.max_query_length + 3:
            raise UserError(
                f"--max-seq-length {self.max_seq_length} leaves no room beside a question of {self.max_query_length} tokens.",
                f"Give --max-seq-length {self.max_query_length + 4} or more, or a smaller --max-query-length.",
            )


def window_spans(count: int, room: int, doc_stride: int) -> list[tuple[int, int]]:
    """Start and length of the windows over `count` tokens."""
    spans = []
    start = 0
    while start < count:
        length = min(count - start, room)
        spans.append((start, length))
        if start + length == count:
            break
        start += min(length, doc_stride)
    return spans


def max_context_windows(count: int, spans: list[tuple[int, int]]) -> list[int]:
    """For each token the window that shows it with the most context on its poorer side; the first on a tie."""
    position = np.arange(count)
    best = np.full(count, -np.inf)
    chosen = np.zeros(count, dtype=np.int64)
    for number, (start, length) in enumerate(spans):
        here = slice(start, start + length)
        left, right = position[here] - start, start + length - 1 - position[here]
        score = np.minimum(left, right) + 0.01 * length
        better = score > best[here]
        best[here] = np.where(better, score, best[here])
        chosen[here] = np.where(better, number, chosen[here])
    return [int(number) for number in chosen]
