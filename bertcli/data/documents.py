"""Text files as documents: lists of lines, a blank line between them."""

import glob
import gzip
import io
import lzma
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, cast

from bertcli.errors import UserError

TEXT_ENDINGS = (".txt", ".txt.gz", ".txt.xz", ".txt.zst")


def find_text_files(names: Iterable[str]) -> list[Path]:
    """Expand files, folders and patterns: in the order given, a folder's or a pattern's files sorted.

    Raises:
        UserError: if a name leads to no file, or to an empty one.
    """
    paths: list[Path] = []
    for name in names:
        path = Path(name)
        if path.is_dir():
            found = sorted(child for child in path.iterdir() if child.name.endswith(TEXT_ENDINGS))
            if not found:
                raise UserError(f"The folder `{name}` holds no text files.", f"Name the files: {name}/*")
        elif path.exists():
            found = [path]
        else:
            found = sorted(Path(match) for match in glob.glob(name, recursive=True))
            if not found:
                raise UserError(
                    f"There is no text file `{name}`.", "Check the name, or give a pattern such as corpus/*.txt."
                )
        paths += [child for child in found if child.is_file()]
    if not paths:
        raise UserError("No text files were given.", "Name them after the command, such as corpus/*.txt.")
    for path in paths:
        if path.stat().st_size == 0:
            raise UserError(f"The text file `{path}` is empty.", "Leave it out, or put text into it.")
    return paths


def open_binary(path: Path) -> IO[bytes]:
    """Open a file that may be compressed (.gz, .xz, .zst)."""
    if path.suffix == ".gz":
        return cast(IO[bytes], gzip.open(path))
    if path.suffix == ".xz":
        return io.BufferedReader(lzma.open(path))
    if path.suffix == ".zst":
        import zstandard

        return io.BufferedReader(zstandard.open(path, "rb"))
    return path.open("rb")


def read_lines(path: Path) -> Iterator[str]:
    r"""Yield the lines of a UTF-8 file, stripped. Only `\n` ends a line, as in the original.

    Raises:
        UserError: at the first line that is not UTF-8 text, with its number.
    """
    number = 0
    try:
        with open_binary(path) as file:
            for number, line in enumerate(file, start=1):
                if b"\0" in line and _is_binary(line.rstrip()):
                    raise UserError(f"`{path}` line {number} is not text but binary.", "Name text files only.")
                yield line.decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise UserError(
            f"`{path}` line {number} is not UTF-8 (byte {error.object[error.start]:#04x}).",
            f"Convert it first: iconv -f latin1 -t utf-8 {path} > converted.txt",
        ) from None
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise UserError(f"`{path}` cannot be read: {error}.", "Check the file, or compress it again.") from None
    except Exception as error:
        if type(error).__name__ != "ZstdError":
            raise
        raise UserError(f"`{path}` cannot be read: {error}.", "Check the file, or compress it again.") from None


def _is_binary(line: bytes) -> bool:
    """Whether half of a line is control characters; a single one among letters vanishes later, as in the original."""
    return 2 * sum(byte < 32 for byte in line) >= len(line)


def read_documents(paths: Iterable[Path], join_files: bool = False) -> Iterator[list[str]]:
    """Yield the documents of the files, each a list of non-blank lines.

    A blank line ends a document, and so does the end of a file unless `join_files`
    (create_pretraining_data.py, which merges the last document of a file with the first of the next).
    """
    document: list[str] = []
    for path in paths:
        for line in read_lines(path):
            if line:
                document.append(line)
            elif document:
                yield document
                document = []
        if document and not join_files:
            yield document
            document = []
    if document:
        yield document
