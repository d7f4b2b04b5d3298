"""Which process runs a part, on machines that share nothing but a folder."""

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

import psutil

CLAIMS = "claims"
HEARTBEAT_SECONDS, SILENT_SECONDS = 10.0, 120.0  # between signs of life; without one, until a process counts as dead


class Claims:
    """The claims in a folder: a file for each, made atomically, whose time its process renews while it lives.

    The claims of a part are numbered. A part is held by the process that made the last one, until this is released or
    its process dead; then the next number is free, for whoever makes it first. Numbers never become free again before the
    part is done, so two processes that see the same dead claim do not both get the part.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / CLAIMS
        self._seen: dict[Path, tuple[float, float]] = {}  # the time of a claim, and when this process first saw it

    @contextmanager
    def hold(self, part: str) -> Iterator[bool]:
        """Try to claim a part; yield whether it is held, and release it at the end."""
        claim = self._make(part)
        if claim is None:
            yield False
            return
        ended = Event()
        heart = Thread(target=_beat, args=(claim, ended), daemon=True)
        heart.start()
        try:
            yield True
        finally:
            ended.set()
            heart.join()
            with suppress(FileNotFoundError):
                _write(claim, {**_read(claim), "released": True})

    def holder(self, part: str) -> str:
        """Who runs a part, in words; "" for nobody."""
        claims = self._claims(part)
        return _words(_read(claims[-1])) if claims and not self._is_free(claims[-1]) else ""

    def seconds(self, part: str) -> float:
        """How long all processes that held a part have worked on it, as long as they were alive."""
        times = ((float(_read(claim).get("started", 0)), claim.stat().st_mtime) for claim in self._claims(part))
        return sum(max(0.0, last - started) for started, last in times if started)

    def forget(self, part: str) -> None:
        """Remove the claims of a part that is done."""
        for claim in self._claims(part):
            claim.unlink(missing_ok=True)

    def _make(self, part: str) -> Path | None:
        """The next claim of a part, made by this process; None where another process holds it or was faster."""
        claims = self._claims(part)
        if claims and not self._is_free(claims[-1]):
            return None
        claim = self.folder / f"{part.replace('/', '-')}.{_number(claims[-1]) + 1 if claims else 1}"
        claim.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError), claim.open("x", encoding="utf-8"):
            _write(claim, {**_this_process(), "started": claim.stat().st_mtime})
            return claim
        return None

    def _claims(self, part: str) -> list[Path]:
        """The claims of a part, by their numbers."""
        name = part.replace("/", "-")
        return sorted((path for path in self.folder.glob(f"{name}.*") if path.suffix[1:].isdigit()), key=_number)

    def _is_free(self, claim: Path) -> bool:
        """Whether the process of a claim has released it, has died on this machine, or was silent for too long."""
        held, now = _read(claim), time.monotonic()
        if held.get("released"):
            return True
        if held.get("machine") == _this_process()["machine"]:
            return not _is_alive(held)
        try:
            renewed = claim.stat().st_mtime
        except FileNotFoundError:
            return True
        before, since = self._seen.setdefault(claim, (renewed, now))
        if renewed != before:
            self._seen[claim] = renewed, now
        return renewed == before and now - since > SILENT_SECONDS  # by our own clock: those of machines differ


def _beat(claim: Path, ended: Event) -> None:
    while not ended.wait(HEARTBEAT_SECONDS):
        with suppress(OSError):
            os.utime(claim)


def _this_process() -> dict[str, Any]:
    """What tells this process from all others; processes of one machine that do not see each other count as of two."""
    namespace = Path("/proc/self/ns/pid")
    machine = f"{socket.gethostname()} {os.readlink(namespace) if namespace.exists() else ''}".strip()
    return {"machine": machine, "process": os.getpid(), "born": psutil.Process().create_time()}


def _is_alive(held: dict[str, Any]) -> bool:
    try:
        process = psutil.Process(int(held["process"]))
        is_same: bool = abs(process.create_time() - float(held["born"])) < 1
        return is_same and process.status() != psutil.STATUS_ZOMBIE  # killed, and its parent has not seen it yet
    except (psutil.Error, KeyError, ValueError):
        return False


def _words(held: dict[str, Any]) -> str:
    return f"process {held.get('process', '?')} on {str(held.get('machine', 'another machine')).split(' ')[0]}"


def _number(claim: Path) -> int:
    return int(claim.suffix[1:])


def _write(claim: Path, values: dict[str, Any]) -> None:
    claim.write_text(json.dumps(values), encoding="utf-8")


def _read(claim: Path) -> dict[str, Any]:
    """What a claim says; nothing where it is just being written, or gone."""
    try:
        return dict(json.loads(claim.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}
