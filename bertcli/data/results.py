"""What the results of commands share: plain rows, which pandas takes, and a table in a notebook."""

from collections.abc import Iterable
from html import escape
from typing import Any

Rows = list[dict[str, Any]]
ROWS_SHOWN, LONGEST = 20, 160  # in a notebook: rows, and characters of a cell


class Result:
    """The result of a command: `pandas.DataFrame(result.rows)` is its table, and a notebook shows its first rows."""

    @property
    def rows(self) -> Rows:
        """The result as plain rows; of most commands one, with what is a single value."""
        return [{name: value for name, value in vars(self).items() if isinstance(value, str | int | float)}]

    def _repr_html_(self) -> str:
        rows = self.rows
        more = f"<p>… and {len(rows) - ROWS_SHOWN:,} more rows</p>" if len(rows) > ROWS_SHOWN else ""
        columns = list(dict.fromkeys(name for row in rows for name, value in row.items() if value is not None))
        head = _line("th", columns)
        return f"<table>{head}{''.join(_line('td', map(row.get, columns)) for row in rows[:ROWS_SHOWN])}</table>{more}"


def _line(tag: str, cells: Iterable[object]) -> str:
    """A row of a table; its texts are escaped."""
    return f"<tr>{''.join(f'<{tag}>{escape(_shown(cell))}</{tag}>' for cell in cells)}</tr>"


def _shown(cell: object) -> str:
    if cell is None:
        return "–"
    text = f"{cell:.4f}".rstrip("0").rstrip(".") if isinstance(cell, float) else str(cell)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
