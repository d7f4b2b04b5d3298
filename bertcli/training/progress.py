"""Progress: a bar on a terminal, a line every ten seconds in a log."""

import logging
import sys
import time
from typing import Any, Self

from bertcli import say

logger = logging.getLogger("bertcli")
SECONDS_BETWEEN_LINES = 10


class Progress:
    """The progress of a long operation: `with Progress("reading", total=9) as p: p.advance(1)`."""

    def __init__(self, title: str, total: float | None, unit: str = "") -> None:
        self.title, self.total, self.unit = title, total, unit
        self.done = 0.0
        self.started = self.last_line = time.perf_counter()
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        """Start the bar if stderr is a terminal and notes are shown."""
        if logger.isEnabledFor(logging.INFO) and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as RichProgress

            begin = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %")
            columns = *begin, TextColumn("{task.fields[words]}"), TimeRemainingColumn()
            # Results may go to a pipe, so stdout is not redirected to the terminal of the bar.
            self._bar = RichProgress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False)
            self._bar.start()
            self._task = self._bar.add_task(self.title, total=self.total, words="")
        return self

    def __exit__(self, *error: object) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()

    def advance(self, amount: float, words: str = "") -> None:
        """Count `amount` as done; `words` are shown beside the bar."""
        self.done += amount
        elapsed = time.perf_counter() - self.started
        rate = self.done / max(elapsed, 1e-9)
        plain = f"{rate:,.0f} {self.unit}/s".replace(" /s", "/s")
        words = words or (f"{rate / 1e6:.1f} MB/s" if self.unit == "B" else plain)
        if self._bar is not None:
            self._bar.update(self._task, advance=amount, words=words)
        elif time.perf_counter() - self.last_line > SECONDS_BETWEEN_LINES:
            self.last_line = time.perf_counter()
            done = f"{100 * self.done / self.total:.0f} %" if self.total else f"{self.done:,.0f}"
            left = f"  {_duration(elapsed * (self.total / self.done - 1))} left" if self.total and self.done else ""
            say(f"{self.title}  {done}  {words}{left}")

    def start_at(self, done: float) -> None:
        """Set how much an earlier run has done."""
        self.done = done
        if self._bar is not None:
            self._bar.update(self._task, completed=done)


def _duration(seconds: float) -> str:
    """A time in words: `40 s`, `3 min`, `2 h 05`."""
    if seconds < 5400:
        return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
    return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60):02d}"
