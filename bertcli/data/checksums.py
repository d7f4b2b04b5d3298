"""Checksums of the files of a folder, in the format of `sha256sum --check`."""

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from bertcli.errors import UserError, quoted

CHECKSUMS = "checksums.sha256"
LONGEST_NAME = 255  # bytes, of any file system


def digest_of(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_checksums(folder: Path) -> None:
    """Write the checksums of all files in a folder."""
    names = sorted(path.name for path in folder.iterdir() if path.is_file() and path.name != CHECKSUMS)
    lines = [f"{digest_of(folder / name)}  {name}\n" for name in names]
    (folder / CHECKSUMS).write_text("".join(lines), encoding="utf-8")


def damaged_files(folder: Path, names: Iterable[str] | None = None) -> Iterator[str]:
    """The names of the files that are missing or differ from their checksums, or only of `names`; none without checksums."""
    path = folder / CHECKSUMS
    if not path.is_file():
        return
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        digest, _, name = line.partition("  ")
        file = folder / name
        if Path(name).name != name or len(name.encode()) > LONGEST_NAME:
            yield CHECKSUMS  # the list itself is damaged
        elif (names is None or name in names) and not (file.is_file() and digest_of(file) == digest):
            yield name


def check_files(folder: Path, names: Iterable[str] | None = None) -> None:
    """Raise UserError if one of the files, or of `names`, is missing or differs from its checksum."""
    if damaged := next(damaged_files(folder, names), None):
        if not (folder / damaged).exists():
            raise UserError(f"`{folder / damaged}` is missing.", "Make or copy it again.")
        hint = f"Make or copy it again; if you changed it on purpose: rm {quoted(folder / CHECKSUMS)}"
        raise UserError(f"`{folder / damaged}` is damaged: it differs from its checksum.", hint)
