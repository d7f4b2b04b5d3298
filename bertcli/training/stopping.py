"""What stops a training: signals, updates that are not finite, and memory that does not suffice."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from bertcli import say
from bertcli.errors import Interrupted, RunError

if TYPE_CHECKING:
    from bertcli.data.packing.batches import PackedBatch

T = TypeVar("T")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SKIPPED_IN_A_ROW = 10  # updates, after which a run stops


class Interruption:
    """Inside the context, the first signal sets `asked` to its number and the second raises KeyboardInterrupt; with `is_at_once`, each does."""

    def __init__(self, is_at_once: bool = False) -> None:
        self.asked = 0
        self._is_at_once = is_at_once
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        """Handle the signals; Python allows that in the main thread only. One that is ignored, as by nohup, stays so."""
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(self, *error: object) -> None:
        """Restore the handlers."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def unless_asked(self, make: Callable[[], T], applies: bool) -> T | None:
        """What `make` returns; where that applies, None if the first signal comes meanwhile, which ends it."""
        self._is_at_once = applies
        try:
            return make()
        except KeyboardInterrupt:
            if not applies:
                raise
            return None
        finally:
            self._is_at_once = False

    def _ask(self, number: int, frame: FrameType | None) -> None:
        is_first, self.asked = not self.asked, number
        if self._is_at_once or not is_first:
            raise KeyboardInterrupt(number)
        with suppress(RuntimeError):  # where it comes while something else is being printed
            say("stopping after this step, or the scores that are being made; a second signal stops at once")


def exit_code_of(stop: BaseException) -> int:
    """128 and the number of the signal that stopped a run, of Ctrl-C where no other is known."""
    if isinstance(stop, Interrupted):
        return stop.exit_code
    return 128 + int(stop.args[0] if stop.args else signal.SIGINT)


def interrupted(stop: BaseException, what: str, again: str) -> Interrupted:
    """The error of what a signal has stopped, or a run in it; `again` is the command that continues."""
    said = getattr(stop, "message", "Interrupted.")
    return Interrupted(f"{what}{said}", f"Continue: {again}", exit_code_of(stop) - 128)


def last_of(step: int, micro_batches: list[PackedBatch]) -> str:
    """Words for the last of several updates, with the first rows of its batch."""
    rows = ", ".join(map(str, micro_batches[0].rows[:5].tolist()))
    return f"the last at step {step + 1:,}, whose batch has the rows {rows}, ..."


def not_finite(what: str, learning_rate: float, folder: Any) -> RunError:
    """The error of a run that has diverged; its hint works whether there is a checkpoint or not."""
    command = f"{folder.command_to_resume} --learning-rate {learning_rate / 10:g}"
    return RunError(what, f"Continue with a smaller learning rate: {command}")


def is_out_of_memory(error: RuntimeError) -> bool:
    """Whether memory, of a GPU or a CPU, did not suffice."""
    import torch

    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


def out_of_memory(micro_batches: list[PackedBatch]) -> RunError:
    """The error of a step that memory does not hold."""
    tokens = max(len(batch.input_ids) for batch in micro_batches)
    return RunError(
        f"Out of memory in a pass over {tokens:,} tokens.",
        f"Give --micro-batch-tokens {tokens // 2}: {2 * len(micro_batches)} passes a step instead of {len(micro_batches)}, "
        "the same batch and the same result; or --auto-batch-size, which finds how many by itself. "
        "--gradient-checkpointing needs less memory too.",
    )
