"""Results go to stdout; progress, notes and errors go to stderr."""

import json
import logging
import os
import re
import stat
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from operator import gt
from shutil import get_terminal_size
from textwrap import fill
from typing import Any, TextIO

logger = logging.getLogger("bertcli")
GREEN, RED, FAINT = (70, 190, 140), (240, 110, 110), 0.05  # of a share
# Characters of cells that are kept whole while possible, of any column, and of a first column.
SHORT, NARROWEST, LONGEST_NAME = 10, 4, 32
CONTROLS = dict.fromkeys((*range(9), *range(11, 32), *range(127, 160)), "�")  # which a terminal would obey
NUMBER = re.compile(r"|–|[-+,.]*\d[-+,.\d]* ?%?")


class _ToStderr(logging.Handler):
    """Prints to the current stderr, which a progress bar replaces."""

    def emit(self, record: logging.LogRecord) -> None:
        write(_with_names(self.format(record)), sys.stderr)


@dataclass(frozen=True)
class Output:
    """How results are printed: as one JSON object, or as tables; `quiet` prints no notes."""

    json: bool = False
    quiet: bool = False

    def start(self) -> None:
        """Print the notes of the other modules to stderr."""
        logger.handlers = [_ToStderr()]
        logger.setLevel(logging.ERROR if self.quiet or not is_first() else logging.INFO)
        if "RANK" in os.environ:
            from bertcli.training.processes.launching import STARTED_BY, is_warning

            if STARTED_BY in os.environ:
                logger.addFilter(is_warning)
        logger.propagate = False

    @property
    def shows_tables(self) -> bool:
        """Whether tables are printed: not with --json, and by the first of several processes only."""
        return not self.json and is_first()

    def emit(self, result: Any) -> None:
        """Print a result, or plain values, as one JSON object on one line of stdout."""
        if not is_first():
            return
        values = result if isinstance(result, dict) else getattr(result, "to_json", lambda: asdict(result))()
        print(json.dumps(values, ensure_ascii=False, default=str), flush=True)

    def table(
        self, columns: Iterable[str], rows: Iterable[Iterable[object]], title: str = "", below: Iterable[str] = ()
    ) -> None:
        """Print a table, numbers aligned to the right, in a box with the lines `below` it if there are any; nothing with --json."""
        if not self.shows_tables:
            return
        from rich import box
        from rich.console import Console, Group
        from rich.panel import Panel
        from rich.table import Table
        from rich.text import Text

        console = Console(highlight=False, markup=False, width=None if Console().is_terminal else 160)
        table, heading = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0)), Text(title, "bold")
        names = list(columns)
        cells = [list(row) for row in zip(*map(_cells, zip(*rows, strict=True)), strict=True)]
        widths = _widths([names, *cells], console.width - (4 if below else 0))
        for name, width, *column in zip(names, widths, *cells, strict=True):
            numeric = bool(cells) and all(map(NUMBER.fullmatch, column))
            table.add_column(name, justify="right" if numeric else "left", overflow="fold", width=width)
        for row in cells:
            table.add_row(*row)
        framed = Panel(Group(table, *below), title=heading, title_align="left", expand=False)
        console.print(framed if below else Group(*[heading] * bool(title), table))

    def scores(self, result: Any) -> None:
        """Print the scores of a run at a task, after its other tables, with its summary; nothing of a run without scores."""
        from bertcli.reports.tables import result_tables, summary_lines

        if result.metrics:
            scores, *others = result_tables(result)
            for table in others:
                self.table(table.columns, table.rows, table.title)
            self.table(scores.columns, scores.rows, scores.title, summary_lines(result))
            for command in result.next if self.shows_tables else ():
                print(f"next: {command}")  # outside of the box, so that it can be copied where it is wrapped

    def shaded(self, pieces: Iterable[tuple[str, float | None]]) -> None:
        """Print a text whose pieces are shaded by their shares, -1 to 1: green for above 0, red for below; nothing with --json."""
        if self.json:
            return
        from rich.console import Console
        from rich.text import Text

        text = Text()
        for piece, share in pieces:
            faded = [round(255 + (tint - 255) * abs(share or 0)) for tint in (GREEN if (share or 0) > 0 else RED)]
            style = f"black on rgb({faded[0]},{faded[1]},{faded[2]})" if abs(share or 0) > FAINT else ""
            text.append(piece.translate(CONTROLS), style)
        Console(highlight=False).print(text)


def write(text: str, stream: TextIO) -> None:
    """Print a text, to a terminal with line breaks between words, where it would break lines inside of them."""
    columns = get_terminal_size().columns if stream.isatty() else sys.maxsize
    for line in text.translate(CONTROLS).split("\n"):
        indent = "  " + line[: len(line) - len(line.lstrip())]
        wrap = partial(fill, width=columns, subsequent_indent=indent, replace_whitespace=False, break_long_words=False)
        print(line if len(line) <= columns else wrap(line, break_on_hyphens=False), file=stream)


def error(message: str, hint: str) -> None:
    """Print what is wrong and what to type next, one line each."""
    if is_first():
        print(_with_names(f"error: {message}\nhint: {hint}").translate(CONTROLS), file=sys.stderr)


def _with_names(words: str) -> str:
    from bertcli.lifecycle.pretrained import with_names

    return with_names(words)


def is_piped() -> bool:
    """Whether standard input is a pipe or a file."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError):
        return False
    return any(is_kind(mode) for is_kind in (stat.S_ISFIFO, stat.S_ISREG, stat.S_ISSOCK))


def is_first() -> bool:
    """Whether this is the first of the processes of a run, the only one that prints."""
    return os.environ.get("RANK", "0") == "0"


def _widths(rows: list[list[str]], most: int) -> list[int]:
    """The widths of a table's columns, so that it fits into `most` characters; the first row is the header.

    The widest are made narrower first. The first column, words of the header and short cells stay whole while that is possible.
    """
    from rich.cells import cell_len

    columns = [[*map(cell_len, column)] for column in zip(*rows, strict=True)]
    widths, free = [min(most, max(column)) for column in columns], most - 2 * len(columns) - 1
    words = [max(map(cell_len, name.split()), default=1) for name in rows[0]]
    kept = [max(word, min(max(column[1:], default=1), SHORT)) for word, column in zip(words, columns, strict=True)]
    kept[:1] = widths[:1] if widths[0] <= LONGEST_NAME else kept[:1]  # what a row is called, and is typed
    narrow = [NARROWEST] * len(kept[1:])
    for least in (kept, [*kept[:1], *narrow], [SHORT, *narrow]):
        while sum(widths) > free and any(map(gt, widths, least)):
            widths[max(range(len(widths)), key=lambda each: (widths[each] > least[each], widths[each]))] -= 1
    return widths


def _cells(column: Sequence[object]) -> list[str]:
    """The cells of a column as text; its numbers have the same number of decimals."""
    numbers = (f"{cell:.4f}" for cell in column if isinstance(cell, float))
    decimals = max((len(number.rstrip("0").partition(".")[2]) for number in numbers), default=0)
    texts = (f"{cell:.{decimals}f}" if isinstance(cell, float) else str(cell) for cell in column)
    return ["–" if cell is None else text.translate(CONTROLS) for cell, text in zip(column, texts, strict=True)]
