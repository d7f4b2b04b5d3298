"""Atomic writes: to a temporary file or folder, then renamed."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write a file or folder to; it replaces `path` unless an exception is raised."""
    part, old = (path.with_name(f".{path.name}.{end}") for end in ("part", "old"))
    _remove(part)
    try:
        yield part
        if path.is_dir():
            _remove(old)
            path.rename(old)
        part.replace(path)
    finally:
        _remove(part)
    _remove(old)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
