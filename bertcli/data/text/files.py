"""Text files, compressed or not."""

import gzip
import io
import lzma
import sys
import tarfile
import zipfile
import zlib
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from math import inf
from pathlib import Path
from typing import IO, cast

import zstandard

from bertcli.data.remote import is_url, status_of, unreachable
from bertcli.errors import UserError, check_regular, quoted

LONGEST_LINE, LONGEST_FILE = 4_000_000, 1_000_000_000  # bytes, of a line and of a file that is read as one value
# Text compresses to a tenth; a file that unpacks to more than so many times its size, and to more than so many bytes, is a bomb.
UNPACKED_TIMES, UNPACKED_FROM = 100, 20_000_000
COMPRESSED = (".gz", ".xz", ".zst")
DAMAGED = (OSError, EOFError, zlib.error, lzma.LZMAError, zstandard.ZstdError, zipfile.BadZipFile, tarfile.TarError)
BAD_ZIP = (zipfile.BadZipFile, RuntimeError, NotImplementedError, ValueError)  # a password, another version, a name
TABLE_ENDINGS = (".csv", ".tsv", ".jsonl", ".json", ".parquet")
CONTROLS = {*range(9), *range(14, 27), *range(28, 32)}  # bytes that no text of one byte a character has
PICKLE = ("a pickle, which may run any code when it is opened", "Save its table as Parquet.")
# First bytes of other formats, often mistaken for text. A pickle is never opened: that would run its code.
SIGNATURES = {
    b"PK\x03\x04": ("an Excel workbook or a zip", "Save its table as CSV (UTF-8) or Parquet."),
    b"\xd0\xcf\x11\xe0": ("an old Excel workbook", "Save its table as CSV (UTF-8) or Parquet."),
    **dict.fromkeys((b"\x80\2", b"\x80\3", b"\x80\4", b"\x80\5"), PICKLE),
    b"PAR1": ("Parquet", "Let its name end in .parquet."),
    b"\x1f\x8b": ("compressed data", "Let its name end in .gz."),
    b"BZh": ("compressed by bzip2", "Unpack it, or compress it with gzip, xz or zstd."),
    b"\xfd7zXZ": ("compressed data", "Let its name end in .xz."),
    b"\x28\xb5\x2f\xfd": ("compressed data", "Let its name end in .zst."),
}


def ending_of(path: Path) -> str:
    """The ending of a file's name, without that of a compression."""
    return Path(path.stem if path.suffix in COMPRESSED else path.name).suffix.lower()


def check_unpacked(path: Path, unpacked: int) -> float:
    """The maximum size in bytes of text compressed to a file of this size. Raises UserError if it is larger."""
    most = max(UNPACKED_FROM, UNPACKED_TIMES * status_of(path).st_size)
    if unpacked > most:
        what = f"`{path}` unpacks to more than {unpacked / 1e6:,.0f} MB, {UNPACKED_TIMES} times its size."
        raise UserError(what, "Text does not compress that well: check where the file is from, or unpack it yourself.")
    return most


def open_binary(path: Path) -> IO[bytes]:
    """Open a file, which may be compressed (.gz, .xz, .zst) or in a .zip file; `-` is standard input."""
    if str(path) == "-":
        return sys.stdin.buffer
    if is_url(path):
        source: io.BufferedReader | Path = io.BufferedReader(cast(io.RawIOBase, path.open("rb")))
    else:
        check_regular(path)
        if inside := _inside_archive(path):
            try:
                return inside.open("rb")
            except BAD_ZIP as error:
                raise zipfile.BadZipFile(str(error)) from None
        source = path
    if path.suffix == ".gz":
        return cast(IO[bytes], gzip.open(source))
    if path.suffix == ".xz":
        return io.BufferedReader(lzma.open(source))
    if path.suffix == ".zst":
        return io.BufferedReader(zstandard.open(source, "rb"))
    return source.open("rb") if isinstance(source, Path) else source


def is_in_archive(path: Path) -> bool:
    """Whether a path, such as `RTE.zip/RTE/train.tsv`, leads to a file in a .zip file."""
    return bool((inside := _inside_archive(path)) and inside.is_file())


def tar_of(path: Path) -> Path | None:
    """The .tar.gz file that a path leads into, if any."""
    return next((parent for parent in path.parents if parent.name.endswith(".tar.gz") and parent.is_file()), None)


def _inside_archive(path: Path) -> zipfile.Path | None:
    archive = next((parent for parent in path.parents if parent.suffix == ".zip"), None)
    if archive is None or not archive.is_file():
        return None
    try:
        return zipfile.Path(archive, path.relative_to(archive).as_posix())
    except BAD_ZIP as error:
        raise UserError(f"The zip `{archive}` is damaged: {error}.", "Download or copy it again.") from None


@contextmanager
def reading(path: Path) -> Iterator[IO[bytes]]:
    """A file, which may be compressed, open for reading. Raises UserError if it is damaged or cannot be read."""
    try:
        with open_binary(path) as file:
            yield file
    except DAMAGED as error:
        if is_url(path) and isinstance(error, OSError) and not isinstance(error, gzip.BadGzipFile):
            raise unreachable(path, error) from None
        raise UserError(f"`{path}` cannot be read: {error}.", "Check the file, or compress it again.") from None
    except Exception as error:  # each remote file system raises its own
        if not is_url(path) or isinstance(error, (UserError, UnicodeError)):
            raise
        raise unreachable(path, error) from None


def lines_of(path: Path, longest: int = LONGEST_LINE) -> Iterator[str]:
    r"""Yield the lines of a UTF-8 file unchanged, without a byte-order mark. Only `\n` ends a line, as in the original.

    Raises UserError at the first line that is not UTF-8 text, or has more than `longest` bytes.
    """
    number, unpacked, most = 0, 0, float(UNPACKED_FROM if path.suffix in COMPRESSED else inf)
    try:
        with reading(path) as file:
            _check_beginning(path, cast(io.BufferedReader, file).peek(1000)[:1000])
            for number, line in enumerate(iter(lambda: file.readline(longest + 1), b""), start=1):
                # The tokenizer drops single control characters, as the original's; half a line of them is no text.
                if b"\0" in line and 2 * sum(byte < 32 for byte in line.rstrip()) >= len(line.rstrip()):
                    raise _binary(path, number)
                unpacked += len(line)
                if unpacked > most:
                    most = check_unpacked(path, unpacked)
                if len(line) > longest:
                    what = f"`{path}` line {number} has more than {longest / 1e6:.0f} MB."
                    raise UserError(what, "Put line breaks into the text, such as after each sentence or paragraph.")
                yield line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise _not_utf8(path, number, error) from None


def has_byte_order_mark(path: Path) -> bool:
    """Whether a file begins with UTF-8's byte-order mark, without which Excel takes it for another encoding."""
    with reading(path) as file:
        return file.read(len(BOM_UTF8)) == BOM_UTF8


def count_lines(path: Path) -> int:
    """Number of line ends in a file."""
    lines, unpacked, most = 0, 0, float(UNPACKED_FROM if path.suffix in COMPRESSED else inf)
    with reading(path) as file:
        for block in iter(lambda: file.read(2**20), b""):
            lines, unpacked = lines + block.count(b"\n"), unpacked + len(block)
            if unpacked > most:
                most = check_unpacked(path, unpacked)
    return lines


def read_text(path: Path) -> str:
    """The text of a UTF-8 file, without a byte-order mark. Raises UserError if it is not UTF-8 text."""
    size, lines = 0, []
    for line in lines_of(path, longest=LONGEST_FILE):
        lines.append(line)
        size += len(line)
        if size > LONGEST_FILE:
            raise UserError(f"`{path}` has more than {LONGEST_FILE / 1e9:.0f} GB.", "Give a part of it.")
    return "".join(lines)


def _check_beginning(path: Path, data: bytes) -> None:
    """Raise UserError if a file begins like another format or UTF-16."""
    for signature, (what, hint) in SIGNATURES.items():
        if data.startswith(signature):
            raise UserError(f"`{path}` is not text but {what}.", hint)
    sides = [data[side::2].count(0) for side in (0, 1)]
    if data.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) or (4 < len(data) / 4 < max(sides) and min(sides) == 0):
        encoding = "utf-16" if data[:1] in b"\xff\xfe" else "utf-16le" if sides[1] else "utf-16be"
        raise UserError(f"`{path}` is UTF-16, not UTF-8.", _convert(path, encoding))


def _binary(path: Path, number: int) -> UserError:
    return UserError(f"`{path}` line {number} is not text but binary.", "Give text files.")


def _not_utf8(path: Path, number: int, error: UnicodeDecodeError) -> UserError:
    """Guess the encoding: bytes from 0x80 to 0x9f are controls in Latin-1, but quotation marks and the euro in cp1252."""
    if error.reason == "unexpected end of data":
        what = f"`{path}` is not UTF-8 at its end: it was cut within a character, or has another encoding."
        return UserError(what, _convert(path, "utf-8", "drop that character: iconv -c"))
    if CONTROLS & set(error.object):
        return _binary(path, number)
    what = f"`{path}` line {number} is not UTF-8 (byte {error.object[error.start]:#04x})"
    if path.is_file() and not all(map(str.isascii, islice(lines_of(path), number - 1))):
        return UserError(
            f"{what}, as other lines are.", _convert(path, "utf-8", "mend it, or drop such bytes: iconv -c")
        )
    encoding = "cp1252" if any(0x80 <= byte < 0xA0 for byte in error.object) else "latin1"
    read = error.object[max(0, error.start - 15) : error.start + 15].decode(encoding, "replace").strip()
    others = "cp1254 if it is Turkish, cp1250 if Polish or Czech, cp1251 if Russian"
    return UserError(f"{what}; it may be {encoding}, which reads `{read}` there ({others}).", _convert(path, encoding))


def _convert(path: Path, encoding: str, how: str = "convert it first: iconv") -> str:
    plain = path.with_suffix("") if path.suffix in COMPRESSED else path
    begin = f"Unpack it and {how}" if plain != path else f"{how[0].upper()}{how[1:]}"
    return f"{begin} -f {encoding} -t utf-8 {quoted(plain)} > converted{plain.suffix}"
