"""A local cache of bounded size, from which rows of shards are read without holding a shard in memory."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import google_crc32c
from filelock import FileLock

from bertcli.data.atomic import part_of, remove, replace
from bertcli.data.checksums import digest_of
from bertcli.data.remote import cache_folder, is_url, reaching
from bertcli.errors import RunError, UserError, first_line

MAKE_AGAIN = "Make the data again: bert make-pretraining-data TEXT --out FOLDER --overwrite"
WAITS = (1, 5, 25)  # seconds before a shard is asked for again, where the network fails
LEFT_SECONDS = 3600  # after which an unfinished file is one of a process that was killed


@dataclass(frozen=True)
class ShardCache:
    """Shards as Arrow files, which are mapped into memory; the least recently used are removed beyond a limit.

    Processes share it: one fetches a shard and the others wait. A file that is removed stays readable where it is open.
    """

    limit_bytes: float

    @cached_property  # a file and its lock are in one folder, whatever becomes of the environment
    def folder(self) -> Path:
        """The folder of the files, named by the digests of shard and file."""
        return cache_folder() / "shards"

    def open(self, shard: Path, digest: str | None) -> Any:
        """The rows of a Parquet file, here or at a URL, as a table of Arrow.

        Raises UserError if it is missing, damaged, or differs from its digest; RunError if it cannot be reached.
        """
        if not is_url(shard):
            digest = _checked(shard, digest, shard)
        if digest is None:
            raise UserError(f"`{shard}` has no checksum in its manifest.", MAKE_AGAIN)
        self.folder.mkdir(parents=True, exist_ok=True)
        with FileLock(self.folder / f"{digest[:2]}.lock"):
            table = self._map(digest)
            return self._fetch(shard, digest) if table is None else table

    def _map(self, digest: str) -> Any:
        """The cached table of a shard; None if there is none, or it is damaged."""
        import pyarrow as pa

        for path in self.folder.glob(f"{digest}-*.arrow"):
            try:
                if path.stem == f"{digest}-{_crc(path)}":
                    os.utime(path)  # it is the last used
                    return _read(path)
            except (OSError, pa.ArrowInvalid):  # another process has removed it, or it is damaged
                pass
            remove(path)
        return None

    def _fetch(self, shard: Path, digest: str) -> Any:
        """Copy a shard, check it and keep it as Arrow, with one group of rows in memory at a time."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        part = part_of(self.folder / f"{digest}.arrow")
        try:
            with _local(shard, part.with_suffix(".parquet"), digest) as path:
                file = pq.ParquetFile(path)
                with pa.OSFile(str(part), "wb") as sink, pa.ipc.new_file(sink, file.schema_arrow) as writer:
                    for batch in file.iter_batches(1 << 13):
                        writer.write_batch(batch)
            table = _read(part)  # before another process can remove it
            self._make_room(part.stat().st_size)
            replace(part, self.folder / f"{digest}-{_crc(part)}.arrow")
            return table
        except pa.ArrowException as error:
            raise UserError(f"`{shard}` is damaged: {first_line(error)}.", MAKE_AGAIN) from None
        finally:
            remove(part)

    def _make_room(self, needed: int) -> None:
        """Remove the files that were used least recently, and those that killed processes left."""
        kept = []
        for path in self.folder.iterdir():
            try:
                status = path.stat()
            except FileNotFoundError:  # another process has removed it
                continue
            if path.suffix == ".arrow" and not path.name.startswith("."):
                kept.append((status.st_mtime, status.st_size, path))
            elif path.suffix != ".lock" and time.time() - status.st_mtime > LEFT_SECONDS:
                remove(path)
        total = needed + sum(size for _, size, _ in kept)
        for _, size, path in sorted(kept):
            if total <= self.limit_bytes:
                break
            remove(path)
            total -= size


def _read(path: Path) -> Any:
    """A file of Arrow as a mapped table: only what is read is loaded into memory."""
    import pyarrow as pa

    return pa.ipc.open_file(pa.memory_map(str(path))).read_all()


@contextmanager
def _local(shard: Path, copy: Path, digest: str) -> Iterator[Path]:
    """A shard as a local file: itself, or a checked copy that is removed afterwards."""
    if not is_url(shard):
        yield shard
        return
    try:
        for wait in (*WAITS, None):
            try:
                with reaching(shard):
                    shard.fs.get_file(shard.path, str(copy))  # type: ignore[attr-defined]
                break
            except UserError as error:
                if wait is None:
                    raise RunError(error.message, "Check the network, then continue: bert pretrain --resume") from None
                time.sleep(wait)
        _checked(copy, digest, shard)
        yield copy
    finally:
        remove(copy)


def _checked(path: Path, digest: str | None, shard: Path) -> str:
    """The digest of a file. Raises UserError if it is another than it should be, or the file is missing."""
    if not path.exists():
        raise UserError(f"`{shard}` is missing.", MAKE_AGAIN)
    found = digest_of(path)
    if digest is not None and found != digest:
        raise UserError(f"`{shard}` is damaged: it differs from its checksum.", MAKE_AGAIN)
    return found


def _crc(path: Path) -> str:
    """The CRC-32C of a file: damage to the cache is found in milliseconds."""
    crc = 0
    with path.open("rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            crc = google_crc32c.extend(crc, block)
    return f"{crc:08x}"
