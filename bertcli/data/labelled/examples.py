"""The examples of a split as they stand in their files: columns with an entry each."""

from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import ClassVar, Self


@dataclass(frozen=True, kw_only=True)
class Examples:
    """What all forms of examples have; each adds its own columns, and one that a split has not is None."""

    unit: ClassVar[str] = "example"
    origin: str
    places: list[str] | None = None  # where each begins in the user's own file

    def __len__(self) -> int:
        """Number of examples."""
        return len(next(iter(self._columns.values())))

    @property
    def _columns(self) -> dict[str, list[object]]:
        return {name: column for name, column in vars(self).items() if isinstance(column, list)}

    def take(self, rows: list[int]) -> Self:
        """The chosen examples."""
        return replace(self, **{name: [column[row] for row in rows] for name, column in self._columns.items()})  # type: ignore[arg-type]

    def place(self, row: int) -> str:
        """Where an example stands, for messages."""
        return self.places[row] if self.places is not None else f"`{self.origin}` {self.unit} {row + 1}"

    @cached_property
    def digest(self) -> str:
        """Of what the examples say, wherever they stand: another one where the data have changed."""
        said = [(name, column) for name, column in self._columns.items() if name != "places"]
        return sha256(repr(said).encode("utf-8", "replace")).hexdigest()[:16]
