"""Atomic writes: to a temporary file or folder, synced to the disk, then renamed."""

import ctypes
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bertcli.data.checksums import write_checksums
from bertcli.errors import check_place

AT_FDCWD, RENAME_EXCHANGE = -100, 2  # of renameat2 on Linux


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path for a file or a folder; it replaces `path` at the end, unless something is raised.

    A folder gets a file of checksums.
    """
    part = part_of(path)
    remove(part)
    try:
        yield part
        if part.is_dir():
            write_checksums(part)
        replace(part, path)
    finally:
        remove(part)


def write_text(path: Path, text: str) -> None:
    """Write a file of UTF-8 text atomically."""
    with replacing(path) as part:
        part.write_text(text, encoding="utf-8")


def part_of(path: Path) -> Path:
    """The temporary path beside `path`, which the next process removes or continues after a kill."""
    target = _target(path)
    return target.with_name(f".{target.name}.part")


def _target(path: Path) -> Path:
    """What a link leads to, which is replaced instead of the link. Raises UserError if nothing can be written there."""
    check_place(path)
    return path.resolve() if path.is_symlink() else path


def replace(part: Path, path: Path) -> None:
    """Sync `part` to the disk and put it in the place of `path` at one instant; an old folder is `part` afterwards."""
    sync(part)
    path = _target(path)
    if part.is_dir() and path.is_dir():
        _exchange(part, path)
    else:
        part.replace(path)
    _sync_one(path.parent)


def sync(path: Path) -> None:
    """Write a file, or a folder with all in it, to the disk."""
    for child in path.iterdir() if path.is_dir() else ():
        sync(child)
    _sync_one(path)


def remove(path: Path) -> None:
    """Remove a file or a folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _sync_one(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _exchange(part: Path, path: Path) -> None:
    """Swap two folders: at one instant on Linux; elsewhere `path` is missing between two renames."""
    swap = getattr(ctypes.CDLL(None), "renameat2", None)
    if swap is None or swap(AT_FDCWD, bytes(part), AT_FDCWD, bytes(path), RENAME_EXCHANGE):
        old = path.with_name(f".{path.name}.old")
        path.rename(old)
        part.rename(path)
        old.rename(part)
