"""Progress of long work: a bar on a terminal, a line every ten seconds in a log."""

import logging
import sys
import time
from typing import Any, Self

from bertcli import say

logger = logging.getLogger("bertcli")
SECONDS_BETWEEN_LINES = 10


class Progress:
    """Shows the progress of long work: `with Progress("reading", total=9) as p: p.advance(1)`."""

    def __init__(self, title: str, total: float | None, unit: str = "") -> None:
        self.title, self.total, self.unit = title, total, unit
        self.done = 0.0
        self.started = self.last_line = time.perf_counter()
        self._bar: Any = None

    def __enter__(self) -> Self:
        """Start the bar, on a terminal where notes are printed."""
        if logger.isEnabledFor(logging.INFO) and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as RichProgress

            texts = [
                TextColumn(text) for text in ("{task.description}", "{task.percentage:>3.0f} %", "{task.fields[words]}")
            ]
            columns = (texts[0], BarColumn(), *texts[1:], TimeRemainingColumn())
            # Results in a pipe are not for the terminal of the bar.
            self._bar = RichProgress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False)
            self._bar.start()
            self._bar.add_task(self.title, total=self.total, words="")
        return self

    def __exit__(self, *error: object) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()

    def advance(self, amount: float, words: str = "") -> None:
        """Add `amount` to what is done; `words`, by default the speed, are shown beside the bar."""
        self.done += amount
        words = words or self._speed()
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], advance=amount, words=words)
        elif time.perf_counter() - self.last_line > SECONDS_BETWEEN_LINES:
            self.last_line = time.perf_counter()
            done = f"{100 * self.done / self.total:.0f} %" if self.total else f"{self.done:,.0f}"
            left = f"  {duration(self.seconds_left())} left" if self.total else ""
            say(f"{self.title}  {done}  {words}{left}")

    def start_at(self, done: float) -> None:
        """Set what an earlier run has already done."""
        self.done = done
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=done)

    def seconds_left(self) -> float:
        """The time left at the speed so far."""
        elapsed = time.perf_counter() - self.started
        return elapsed * (self.total / self.done - 1) if self.total and self.done else 0.0

    def _speed(self) -> str:
        speed = self.done / max(time.perf_counter() - self.started, 1e-9)
        return f"{speed / 1e6:.1f} MB/s" if self.unit == "B" else f"{speed:,.0f} {self.unit}/s".replace(" /s", "/s")


def duration(seconds: float) -> str:
    """A time as text: `40 s`, `3 min`, `2 h 05`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{int(seconds // 3600)} h {int(seconds % 3600 // 60):02d}"
