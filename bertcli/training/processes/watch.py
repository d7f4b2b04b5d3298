"""Ends a run of several processes soon after one of them has ended or does not move."""

from __future__ import annotations

import json
import os
import platform
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Self

import psutil
import torch.distributed as dist
from torch.distributed import distributed_c10d

from bertcli.errors import UserError, quoted
from bertcli.training.processes.launching import STARTED_BY

STUCK_SECONDS = 25.0  # launchers then take up to 30 more to end the other processes
TICKS = 25  # in this time
LONGEST = timedelta(days=1)  # a wait, as for an evaluation: the watch ends a run that is stuck
IDLE = 0.01  # of a core, below which a process that does not wait for others does not move
WORDS, LINES = 400, 4  # characters and lines of the last output
RUNNING, FINISHED, FAILED = "running", "finished", "failed"
_watches = 0  # that this process has begun: each has its own keys


class Watch:
    """A context in which each process tells the others, through the store of their group, that it moves.

    A process moves while it computes, or waits where it may: for others, or for the disk. One whose main thread sleeps, or
    that the system has stopped, falls silent.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.is_on = folder, False
        self.seconds = float(os.environ.get("BERT_STUCK_SECONDS", STUCK_SECONDS))
        self._state, self._moves, self._idling, self._cpu = RUNNING, 0, 0, 0.0
        self._launcher = int(os.environ.get(STARTED_BY, 0))
        self._over, self._thread = threading.Event(), threading.Thread(target=self._run, daemon=True)
        self._heard: deque[str] = deque(maxlen=LINES)
        self._silent: dict[int, tuple[Any, int]] = {}  # rank -> its last message, and how many ticks ago it changed

    def __enter__(self) -> Self:
        """Begin to watch, where there are several processes, once all are here."""
        global _watches
        self.is_on = dist.is_initialized() and dist.get_world_size() > 1
        if self.is_on:
            _watches += 1
            self.rank, self.count = dist.get_rank(), dist.get_world_size()
            store: Any = distributed_c10d._get_default_store()
            self._store: Any = distributed_c10d.PrefixStore(f"watch-{_watches}", store.clone())  # its own connection
            self._stderr, sys.stderr = sys.stderr, _Heard(sys.stderr, self._heard)
            self._tell()
            dist.barrier()
            distributed_c10d._set_pg_timeout(LONGEST, dist.group.WORLD)
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        """Tell the others that this process is done, or why it failed."""
        if not self.is_on:
            return
        if isinstance(error, RuntimeError):  # it may be the end of another: then the thread ends this process
            self._idling += 1
            self._thread.join(self.seconds * 1.2)
        self._over.set()
        self._thread.join()
        sys.stderr = self._stderr
        self._state = FAILED if error else FINISHED
        if error:
            self._heard.append(error.message if isinstance(error, UserError) else f"{type(error).__name__}: {error}")
        self._tell()

    @contextmanager
    def idling(self) -> Iterator[None]:
        """A context in which the process may wait for others or for the disk."""
        self._idling += 1
        try:
            yield
        finally:
            self._idling -= 1

    def _tell(self) -> None:
        message = {"machine": platform.node(), "pid": os.getpid(), "moves": self._moves, "state": self._state}
        self._store.set(str(self.rank), json.dumps({**message, "words": "; ".join(self._heard)[-WORDS:]}))

    def _run(self) -> None:
        tick, asked = self.seconds / TICKS, ThreadPoolExecutor(1)
        while not self._over.wait(tick):
            if self._launcher and os.getppid() != self._launcher:  # which was killed
                self._launcher = 0
                os.kill(os.getpid(), signal.SIGTERM)  # saves, and stops
            before, self._cpu = self._cpu, time.process_time()
            self._moves += self._idling > 0 or self._cpu - before > IDLE * tick
            try:
                told = asked.submit(self._ask).result(self.seconds)
            except (RuntimeError, TimeoutError):  # the first process keeps the store, or its launcher does
                if not self._over.is_set():
                    message = self._silent[0][0] if self._silent else {}
                    self._end(0, message, "has ended" if _is_gone(message) else "does not answer")
                return
            self._listen(told)

    def _ask(self) -> list[dict[str, Any]]:
        """Tell the others that this process moves, and read what they told."""
        self._tell()
        return [json.loads(each) for each in self._store.multi_get([*map(str, range(self.count))])]

    def _listen(self, told: list[dict[str, Any]]) -> None:
        """End this process if another has ended or is stuck."""
        for rank, message in enumerate(told):
            last, ticks = self._silent.get(rank, (None, 0))
            self._silent[rank] = (message, ticks + 1 if message == last else 0)
        for rank, message in enumerate(told):
            if rank == self.rank or message["state"] == FINISHED:
                continue
            if message["state"] == FAILED or _is_gone(message):
                self._end(rank, message, "has ended")
            elif self._silent[rank][1] >= TICKS:
                self._end(rank, message, f"has not moved for {self.seconds:.0f} s")

    def _end(self, rank: int, message: dict[str, Any], how: str) -> None:
        """Say which process was lost, unless a process before this one says so; kill it, if it is here, and end."""
        others = (each for each, (_, ticks) in self._silent.items() if each != rank and ticks < TICKS // 2)
        has_spoken = rank == 0 and message.get("state") == FAILED
        if self.rank == min(others, default=self.rank) and not has_spoken:
            words = f"; its last output: {message['words']}" if message.get("words") else ""
            where = f"on the machine {message.get('machine', 'of the first')}"
            what, hint = f"Process {rank} of {self.count}, {where}, {how}{words}", "Continue with the same command"
            self._stderr.write(f"error: {what}\nhint: {hint}, --resume and --out {quoted(self.folder)}\n")
            self._stderr.flush()
        if message.get("machine") == platform.node() and not _is_gone(message) and message["state"] == RUNNING:
            os.kill(message["pid"], signal.SIGKILL)
        os._exit(1)


class _Heard:
    """A stream that also keeps the last lines written to it."""

    def __init__(self, stream: Any, lines: deque[str]) -> None:
        self._stream, self._lines = stream, lines

    def write(self, text: str) -> int:
        """Write, and keep lines, but not those of a bar."""
        if "\x1b" not in text:
            self._lines.extend(filter(None, map(str.strip, text.splitlines())))
        return int(self._stream.write(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _is_gone(message: dict[str, Any]) -> bool:
    """Whether a process of this machine has ended."""
    if message.get("machine") != platform.node():
        return False
    try:
        return bool(psutil.Process(message["pid"]).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True
