"""Ctrl-C and SIGTERM: stop after this step and save."""

import signal
import threading
from types import FrameType
from typing import Any, Self


class Interruption:
    """While entered, the first signal only sets `asked`; the second one stops at once."""

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        """Set the handlers; Python allows it in the main thread only."""
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
