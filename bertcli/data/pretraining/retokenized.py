"""The student's texts in the tokens of a teacher with a larger vocabulary, word by word."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch

from bertcli.data.packing.batches import Labels
from bertcli.data.text.tokenization import SPECIAL_TOKENS, WordPiece

if TYPE_CHECKING:
    from bertcli.data.packing.batches import PackedBatch

# T tokens of the student's, U of the teacher's, N sequences, W words


@dataclass(frozen=True)
class TeacherTokens:
    """Two WordPiece tokenizers; words are split once."""

    student: WordPiece
    teacher: WordPiece
    tokens: list[str] = field(init=False)
    known: dict[tuple[int, ...], list[int]] = field(default_factory=dict)  # pieces of a word -> those of the teacher

    def __post_init__(self) -> None:
        object.__setattr__(self, "tokens", self.student.tokens)

    def read(self, batch: PackedBatch) -> Labels:
        """The whole text of a batch as the teacher reads it, longest first, and where each word begins in both."""
        ids, types = batch.input_ids.numpy().copy(), batch.token_type_ids.numpy()
        ids[batch.labels["masked_lm_positions"].numpy()] = batch.labels["masked_lm_ids"].numpy()
        rows: list[tuple[list[int], list[int], list[int]]] = []
        student_places: list[int] = []
        start = 0
        for length in batch.lengths:
            own, own_types, own_places = list[int](), list[int](), list[int]()
            for place, word in self._words(ids[start : start + length].tolist()):
                student_places.append(start + place)
                own_places.append(len(own))
                own += (pieces := self._pieces(word))
                own_types += [int(types[start + place])] * len(pieces)
            rows.append((own, own_types, own_places))
            start += length
        return _packed(rows) | {"student_places": torch.tensor(student_places)}

    def _words(self, ids: list[int]) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Where each word begins, and its pieces; a special token is a word."""
        begin = 0
        for place in range(1, len(ids) + 1):
            if place == len(ids) or not self.tokens[ids[place]].startswith("##"):
                yield begin, tuple(ids[begin:place])
                begin = place

    def _pieces(self, word: tuple[int, ...]) -> list[int]:
        if word not in self.known:
            pieces = [self.tokens[piece] for piece in word]
            if pieces[0] in SPECIAL_TOKENS:
                found = [self.teacher.vocab[piece] for piece in pieces]
            else:
                spelled = pieces[0] + "".join(piece.removeprefix("##") for piece in pieces[1:])
                found = self.teacher.encode_ids([spelled])[0] or [self.teacher.special("unk")]
            self.known[word] = found
        return self.known[word]


def _packed(rows: list[tuple[list[int], list[int], list[int]]]) -> Labels:
    """Sequences end to end, longest first, [U]; which of them is each of the student's, [N]; where its words begin, [W]."""
    lengths = np.array([len(ids) for ids, *_ in rows])
    sorted_ = np.argsort(-lengths, kind="stable")
    starts = np.empty(len(rows), dtype=np.int64)
    starts[sorted_] = np.cumsum(lengths[sorted_]) - lengths[sorted_]
    flat = {
        "ids": [each for row in sorted_ for each in rows[row][0]],
        "types": [each for row in sorted_ for each in rows[row][1]],
        "positions": [place for row in sorted_ for place in range(lengths[row])],
        "places": [starts[row] + place for row, (*_, places) in enumerate(rows) for place in places],
        "lengths": lengths[sorted_],
        "order": np.argsort(sorted_),
    }
    return {f"teacher_{name}": torch.from_numpy(np.array(values, dtype=np.int64)) for name, values in flat.items()}
