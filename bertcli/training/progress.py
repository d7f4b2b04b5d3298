"""Progress of long work: a bar on a terminal, at most about sixty lines in a log."""

import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

from bertcli import say

logger = logging.getLogger("bertcli")
SECONDS_BETWEEN_LINES, MOST_LINES = 10, 55  # more seconds where there would be more lines
_is_live = False  # whether a live display has the terminal: it has room for one
_show: Callable[[str], object] | None = None  # shows words in it
_running: list["Progress"] = []  # from the outermost to the innermost
CALLS_OF_ESTIMATE, SECONDS_OF_ESTIMATE = 5, 8  # after which the time is estimated, whichever comes last
LEAST, MOST = 0.8, 1.3  # of the estimate, as a range
Advise = Callable[[float], str]  # what to say of work that takes so many seconds
WIDE_COLUMNS = 100  # of a terminal that has room for title, bar and percentage beside the words
WARM_UP = 3  # the first calls of `advance`, which take longer: memory is allocated, kernels are chosen


@contextmanager
def live_display(make: Callable[[Any], Any]) -> Iterator[Any]:
    """What `make` makes for the console, live on a terminal where notes are printed, or in a notebook; None elsewhere or inside another one."""
    global _is_live, _show
    if _is_live or not (_is_notebook() or (logger.isEnabledFor(logging.INFO) and sys.stderr.isatty())):
        yield None
        return
    from rich.console import Console

    _is_live = True
    try:
        with make(Console(stderr=True)) as display:
            yield display
    finally:
        _is_live, _show = False, None


def _is_notebook() -> bool:
    """Whether this is a notebook that can show a bar, and notes are not silenced."""
    if "ipykernel" not in sys.modules or find_spec("ipywidgets") is None or logger.level > logging.INFO:
        return False
    from rich.console import Console

    return Console().is_jupyter


@contextmanager
def doing(what: str) -> Iterator[None]:
    """Show what is being done meanwhile: on a terminal at once, in a log from time to time."""
    global _show
    over = threading.Event()
    with live_display(lambda console: console.status(what)) as status:
        if status is not None:
            _show = status.update
        elif logger.isEnabledFor(logging.INFO):
            threading.Thread(target=_say_again, args=(what, over), daemon=True).start()
        try:
            yield
        finally:
            over.set()


def _say_again(what: str, over: threading.Event) -> None:
    """Say from time to time that something is still done, unless there is progress to be said."""
    started, seconds = time.perf_counter(), 0.0
    while not over.wait(max(SECONDS_BETWEEN_LINES, 2 * seconds / MOST_LINES)):
        seconds = time.perf_counter() - started
        if not _running:
            say(f"{what}, since {duration(seconds)}")


@contextmanager
def said_into(file: Path, what: str) -> Iterator[None]:
    """What is said goes into a file meanwhile, all of it; a terminal shows what is being done."""
    before = logger.handlers, logger.level, logger.propagate
    handler = logging.FileHandler(file, encoding="utf-8")
    with doing(what):
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO)
        try:
            yield
        finally:
            logger.handlers, level, logger.propagate = before
            logger.setLevel(level)
            handler.close()


class Progress:
    """Shows the progress of long work: `with Progress("reading", total=9) as p: p.advance(1)`."""

    def __init__(self, title: str, total: float | None, unit: str = "") -> None:
        self.title, self.total, self.unit = title, total, unit
        self.done = 0.0
        self.started = self.last_line = time.perf_counter()
        self._marks = deque([(self.started, 0.0)], maxlen=200)  # when, and what was done by then
        self._calls, self._is_estimated = 0, False
        self._display = live_display(self._make_bar)
        self._bar: Any = None

    def __enter__(self) -> Self:
        """Start the bar, on a terminal where notes are printed."""
        global _show
        self._bar = self._display.__enter__()
        if self._bar is not None:
            _show = self._show_words
        _running.append(self)
        return self

    def _make_bar(self, console: Any) -> Any:
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as RichProgress
        from rich.table import Column

        title, share = map(TextColumn, ("{task.description}", "{task.percentage:>3.0f} %"))
        words = TextColumn("{task.fields[words]}", table_column=Column(ratio=1, no_wrap=True))
        columns = (title, BarColumn(bar_width=8), share, words) if console.width >= WIDE_COLUMNS else (words,)
        # Results in a pipe are not for the terminal of the bar.
        bar = RichProgress(*columns, console=console, transient=True, redirect_stdout=False, expand=True)
        bar.add_task(self.title, total=self.total, words="")
        return bar

    def __exit__(self, *error: object) -> None:
        """Remove the bar."""
        _running.remove(self)
        self._display.__exit__(None, None, None)

    def advance(self, amount: float, words: str = "") -> None:
        """Add `amount`, if any, to what is done; `words`, by default the speed, are shown beside the bar."""
        if not amount:
            return
        self.done += amount
        self._mark()
        left = self.seconds_left()
        words = "  ".join(filter(None, (f"{duration(left)} left" if left else "", words or self._speed())))
        done = f"{100 * self.done / self.total:.0f} %" if self.total else f"{self.done:,.0f}"
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], advance=amount, words=words)
        elif _show is not None:
            _show(f"{self.title}  {done}  {words}")
        elif self._is_line_due(left):
            say(f"{self.title}  {done}  {words}")

    def _is_line_due(self, left: float) -> bool:
        """Whether a log gets a line: about sixty in all, those of the work that this is a part of included."""
        now, whole = time.perf_counter(), [*_running, self][0]
        seconds = max(now - self.started + left, now - whole.started + whole.seconds_left())
        is_due = now - whole.last_line > max(SECONDS_BETWEEN_LINES, seconds / MOST_LINES)
        if is_due:
            whole.last_line = now
        return is_due

    def _mark(self) -> None:
        self._calls += 1
        self._marks.append((time.perf_counter(), self.done))
        if self._calls == WARM_UP + 1:
            for _ in range(WARM_UP):
                self._marks.popleft()

    def _show_words(self, words: str) -> None:
        self._bar.update(self._bar.task_ids[0], words=words)

    def start_at(self, done: float) -> None:
        """Set what an earlier run has already done."""
        self.done = done
        self._marks[0] = (self.started, done)
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=done)

    def estimate(self, what: str, advise: Advise) -> None:
        """Say, once, how long something will take, as soon as its first calls tell, and what is advised then."""
        elapsed, left = time.perf_counter() - self.started, self.seconds_left()
        if self._is_estimated or self._calls < CALLS_OF_ESTIMATE or elapsed < SECONDS_OF_ESTIMATE or not left:
            return
        self._is_estimated = True
        times = dict.fromkeys(duration(share * left) for share in (LEAST, MOST))
        words = f"{what}: {' to '.join(times)} left, estimated from {self._calls} steps"
        say("; ".join(filter(None, (words, advise(left)))))

    def seconds_left(self) -> float:
        """The time left at the speed of late, without that of the first calls; 0 until there are two."""
        first = 1 if 1 < self._calls <= WARM_UP else 0  # the first call of all takes far longer than those after it
        (begun, before), (now, done) = self._marks[first], self._marks[-1]
        if self._calls < 2:
            return 0.0
        return max(0.0, self.total - done) * (now - begun) / (done - before) if self.total and done > before else 0.0

    def _speed(self) -> str:
        speed = self.done / max(time.perf_counter() - self.started, 1e-9)
        if self.unit == "B":
            return f"{speed / 1e6:.1f} MB/s"
        return f"{speed:,.0f} {self.unit}/s" if self.unit else ""


def duration(seconds: float) -> str:
    """A time as text: `40 s`, `3 min`, `2 h 05`, `12 days`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds > 4 * 86_400:
        return f"{seconds / 86_400:,.0f} days"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{int(seconds // 3600)} h {int(seconds % 3600 // 60):02d}"
