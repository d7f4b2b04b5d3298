"""Ctrl-C and SIGTERM: stop after this step and save."""

import signal
import threading
from types import FrameType
from typing import Any, Self


class Interruption:
    """Inside the context, the first signal sets `asked`; the second one raises KeyboardInterrupt."""

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        """Handle the signals; Python allows that in the main thread only."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(self, *error: object) -> None:
        """Restore the handlers."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
