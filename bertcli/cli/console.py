"""Results go to stdout, words and errors to stderr."""

import json
import logging
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

logger = logging.getLogger("bertcli")


class _Words(logging.Handler):
    """Prints to whatever stderr is at the time: a progress bar puts itself in between."""

    def emit(self, record: logging.LogRecord) -> None:
        print(self.format(record), file=sys.stderr)


@dataclass(frozen=True)
class Output:
    """How a person or a script wants to be told."""

    json: bool = False
    quiet: bool = False

    def start(self) -> None:
        """Send the words of the core modules to stderr."""
        logger.handlers = [_Words()]
        logger.setLevel(logging.ERROR if self.quiet or not _is_first() else logging.INFO)
        logger.propagate = False

    def emit(self, result: Any) -> None:
        """Print a result, or plain values, as one JSON object, on one line, alone on stdout."""
        values = (
            result if isinstance(result, dict) else result.to_json() if hasattr(result, "to_json") else asdict(result)
        )
        print(json.dumps(values, ensure_ascii=False), flush=True)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]], title: str = "") -> None:
        """Print a table for a person; numbers stand to the right."""
        from rich import box
        from rich.console import Console
        from rich.table import Table

        table = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD, title_style="bold")
        cells = [[_cell(value) for value in row] for row in rows]
        for index, column in enumerate(columns):
            numeric = bool(cells) and all(_is_number(row[index]) for row in cells)
            table.add_column(column, justify="right" if numeric else "left", overflow="fold")
        for row in cells:
            table.add_row(*row)
        console = Console(highlight=False, markup=False)
        console.print(table) if console.is_terminal else Console(highlight=False, width=160, markup=False).print(table)


def error(message: str, hint: str) -> None:
    """Print what is wrong and what to type next, a line each."""
    if _is_first():
        print(f"error: {message}\nhint: {hint}", file=sys.stderr)


def _is_first() -> bool:
    """Of several processes that share a run, one speaks."""
    return os.environ.get("RANK", "0") == "0"


def _cell(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:.4f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def _is_number(text: str) -> bool:
    return (
        text in ("", "–")
        or text.replace(",", "").replace(".", "").replace("-", "").replace("+", "").strip(" %").isdigit()
    )
