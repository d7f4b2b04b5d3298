"""A column of a big table, in a temporary file instead of memory."""

import json
import os
from array import array
from collections.abc import Iterable, Sequence
from tempfile import TemporaryFile
from typing import Any, Self


class StoredColumn(Sequence[Any]):
    """Texts, or lists of texts, each read from the file when it is asked for; the file ends with the process."""

    def __init__(self) -> None:
        self._file = TemporaryFile()  # noqa: SIM115 - closed with the last column that reads it
        self._starts, self._sizes = array("q"), array("q")  # in bytes

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, row: Any) -> Any:
        """The value of a row; of a slice, all of them."""
        if isinstance(row, slice):
            return [self[each] for each in range(*row.indices(len(self)))]
        return json.loads(os.pread(self._file.fileno(), self._sizes[row], self._starts[row]))

    def __eq__(self, other: object) -> bool:
        """Whether the values are the same."""
        if not isinstance(other, Sequence) or len(other) != len(self):
            return NotImplemented
        return all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def extend(self, values: Iterable[Any]) -> None:
        """Add values at the end of the file. Raises OSError if the disk is full."""
        for value in values:
            written = json.dumps(value).encode()
            self._starts.append(self._file.tell())
            self._sizes.append(len(written))
            self._file.write(written)
        self._file.flush()

    def take(self, rows: Iterable[int]) -> Self:
        """The column of the chosen rows, in the same file."""
        chosen = type(self)()
        for row in rows:
            chosen._starts.append(self._starts[row])
            chosen._sizes.append(self._sizes[row])
        chosen._file = self._file
        return chosen
