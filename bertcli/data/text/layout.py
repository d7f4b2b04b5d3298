"""How an input is laid out: the special tokens around its texts, and the types of its tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Layout:
    """The special tokens around the texts of an input, `before A after` or `before A between B after`, and the types."""

    before: tuple[int, ...]
    between: tuple[int, ...]
    after: tuple[int, ...]
    second_type: int = 1  # of B and its separator; all others are of type 0
    cls_type: int = 0  # of [CLS] where it is last

    @property
    def tokens(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """All three."""
        return self.before, self.between, self.after

    def join(self, first: Sequence[int], second: Sequence[int] = ()) -> tuple[list[int], list[int]]:
        """The ids and types of an input; a second text without tokens is no second text."""
        ids = [*self.before, *first, *(self.between if second else self.after)]
        types = [0] * len(ids) + [self.second_type] * (len(second) + len(self.after) if second else 0)
        ids += [*second, *self.after] if second else []
        if not self.before:
            types[-1] = self.cls_type
        return ids, types

    @property
    def last_type(self) -> int:
        """The type of the last token of an input of one text."""
        return 0 if self.before else self.cls_type

    def room(self, longest: int, has_second: bool = False) -> int:
        """How many tokens of texts an input of `longest` tokens has."""
        return longest - len(self.before) - len(self.after) - len(self.between if has_second else ())

    def open(self) -> Layout:
        """The layout of texts that bring their own separators."""
        return replace(self, between=(), after=())
