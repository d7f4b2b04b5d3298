"""Which column of a table holds the texts: by its name, or as the longest."""

from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from bertcli.data.text.tables import as_text, stream_table
from bertcli.errors import unknown

SENTENCE_NAMES = ("text", "sentence1", "premise", "question1", "question", "sentence")
TEXT_NAMES = (*SENTENCE_NAMES, "review", "comment", "content", "title", "body")
ROWS_LOOKED_AT = 200


def named(wanted: tuple[str, ...], names: list[str]) -> str | None:
    """The column with the first of the wanted names that one has."""
    lower = {name.lower(): name for name in names}
    return next((lower[name] for name in wanted if name in lower), None)


def characters_in(rows: list[dict[str, Any]], column: str) -> int:
    """How many characters the cells of a column have, which tells the texts."""
    return sum(len(as_text(row.get(column))) for row in rows)


def text_column_of(path: Path, asked: str | None) -> str:
    """The column that is asked for, else one by its name or the longest. Raises UserError if there is no such column."""
    names, rows = stream_table(path)
    if asked and asked not in names:
        raise unknown(f"column of {path}:", asked, names)
    first = [cells for _, cells in islice(rows, ROWS_LOOKED_AT)]
    return asked or named(TEXT_NAMES, names) or max(names, key=partial(characters_in, first))
