"""A bar on a terminal, a line now and then in a log."""

import logging
import sys
import time
from typing import Any, Self

from bertcli import say

logger = logging.getLogger("bertcli")
SECONDS_BETWEEN_LINES = 10


class Progress:
    """Shows how far a long work is: `with Progress("reading", total=9) as p: p.advance(1)`."""

    def __init__(self, title: str, total: float | None, unit: str = "") -> None:
        self.title, self.total, self.unit = title, total, unit
        self.done = 0.0
        self.started = self.last_line = time.perf_counter()
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        """Start the bar, where there is a terminal to show it and somebody to look."""
        if logger.isEnabledFor(logging.INFO) and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as RichProgress

            columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
            self._bar = RichProgress(
                *columns,
                TextColumn("{task.fields[words]}"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
                redirect_stdout=False,  # results in a pipe are not for the bar's terminal
            )
            self._bar.start()
            self._task = self._bar.add_task(self.title, total=self.total, words="")
        return self

    def __exit__(self, *error: object) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()

    def advance(self, amount: float, words: str = "") -> None:
        """Say that `amount` more is done; `words` stand beside the bar."""
        self.done += amount
        words = words or self._rate()
        if self._bar is not None:
            self._bar.update(self._task, advance=amount, words=words)
        elif time.perf_counter() - self.last_line > SECONDS_BETWEEN_LINES:
            self.last_line = time.perf_counter()
            done = f"{100 * self.done / self.total:.0f} %" if self.total else f"{self.done:,.0f}"
            left = f"  {duration(self.seconds_left())} left" if self.total else ""
            say(f"{self.title}  {done}  {words}{left}")

    def start_at(self, done: float) -> None:
        """Say how much an earlier run had done already."""
        self.done = done
        if self._bar is not None:
            self._bar.update(self._task, completed=done)

    def seconds_left(self) -> float:
        """The time left at the speed so far."""
        elapsed = time.perf_counter() - self.started
        return elapsed * (self.total / self.done - 1) if self.total and self.done else 0.0

    def _rate(self) -> str:
        rate = self.done / max(time.perf_counter() - self.started, 1e-9)
        return (
            f"{rate / 1e6:.1f} M{self.unit}/s"
            if self.unit == "B"
            else f"{rate:,.0f} {self.unit}/s".replace(" /s", "/s")
        )


def duration(seconds: float) -> str:
    """A time for a person: `40 s`, `3 min`, `2 h 05`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60):02d}"
