"""The vectors of a file's texts, kept beside it and reused while texts and model are unchanged."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from bertcli import say
from bertcli.data.atomic import replacing
from bertcli.data.checksums import CHECKSUMS, digest_of
from bertcli.data.json_files import read_json, write_json
from bertcli.errors import UserError, first_line

# N texts, D numbers of each

Vectors = NDArray[np.float32]
Found = TypeVar("Found")
FORMAT = 1
BLOCK_ROWS = 8192  # read, checked and multiplied at once: 13 MB of 384 numbers each
MANIFEST, ARRAY = "vectors.json", "vectors.npy"  # no manifest.json, by which pre-training data are found
OURS = {MANIFEST, ARRAY, CHECKSUMS}  # in a folder of kept vectors
MODEL_FILES = (".safetensors", ".bin", ".json", ".txt", ".model")
HINT = "Remove it: the vectors are made again."


@dataclass(frozen=True)
class TextVectors:
    """Vectors of length 1, [N, D]; those of a file are mapped into memory and checked as they are read."""

    values: Vectors
    checksums: list[int] | None = None  # CRC-32C of each block; None for vectors that were just made

    def blocks(self) -> Iterator[tuple[int, Vectors]]:
        """The vectors in blocks, each with its first row. Raises UserError at a block that is damaged."""
        for start in range(0, len(self.values), BLOCK_ROWS):
            block = self.values[start : start + BLOCK_ROWS]
            if self.checksums is not None and _checksum(block) != self.checksums[start // BLOCK_ROWS]:
                raise UserError(f"Rows {start:,} and the following are damaged.", HINT)
            yield start, block


def place_of(file: str) -> Path:
    """The folder beside a file that keeps its vectors."""
    return Path(f"{file}.vectors")


def identity_of(texts: list[str], model: str, precision: str) -> dict[str, Any]:
    """What vectors depend on: the texts in their order, and the weights, configuration and tokenizer of the model."""
    names = sorted(path.name for path in Path(model).iterdir() if path.suffix in MODEL_FILES)
    files = [text for name in names for text in (name, digest_of(Path(model) / name))]
    digests = {"texts": _digest(texts), "model": _digest(files)}
    return {"format": FORMAT, "rows": len(texts), "precision": precision, **digests}


def _digest(texts: list[str]) -> str:
    found = hashlib.sha256()
    for text in texts:
        data = text.encode()
        found.update(b"%d:" % len(data) + data)
    return found.hexdigest()


def search(
    folder: Path, identity: dict[str, Any], make: Callable[[], Vectors], find: Callable[[TextVectors], Found]
) -> Found:
    """Search the kept vectors of a folder; make new ones if there are none, or they are damaged or of other texts."""
    try:
        if kept := _kept_vectors(folder, identity):
            return find(kept)
    except (UserError, OSError, ValueError, EOFError) as error:
        what = error.message if isinstance(error, UserError) else first_line(error)
        say(f"{folder}: damaged, and made again ({what.rstrip('.')})")
    values = make()
    values.flags.writeable = False
    _keep(folder, identity, TextVectors(values))
    return find(TextVectors(values))


def _kept_vectors(folder: Path, identity: dict[str, Any]) -> TextVectors | None:
    """The vectors of a folder, None if it has none of these texts and this model. Raises an error if they are damaged."""
    if not folder.exists():
        return None
    manifest = read_json(folder / MANIFEST, HINT, identity=dict, checksums=list)
    if other := [name for name, value in identity.items() if manifest["identity"].get(name) != value]:
        say(f"{folder}: made again, because {' and '.join(other)} changed")
        return None
    values = np.load(folder / ARRAY, mmap_mode="r", allow_pickle=False)
    count, blocks = identity["rows"], -(-identity["rows"] // BLOCK_ROWS)
    is_array = values.ndim == 2 and values.dtype == np.float32 and values.flags.c_contiguous
    if not is_array or (len(values), len(manifest["checksums"])) != (count, blocks):
        raise ValueError("its files do not belong together")
    say(f"vectors: {folder} (kept; texts and model are unchanged)")
    return TextVectors(values, manifest["checksums"])


def _keep(folder: Path, identity: dict[str, Any], made: TextVectors) -> None:
    """Write vectors to a folder, or say why they cannot be kept."""
    try:
        if folder.exists() and not (folder.is_dir() and {path.name for path in folder.iterdir()} <= OURS):
            raise OSError(f"`{folder}` holds something else")
        with replacing(folder) as part:
            part.mkdir()
            np.save(part / ARRAY, made.values, allow_pickle=False)
            checksums = [_checksum(block) for _, block in made.blocks()]
            write_json(part / MANIFEST, {"identity": identity, "checksums": checksums})
    except (OSError, UserError) as error:
        why = error.message.rstrip(".") if isinstance(error, UserError) else error.strerror or error
        say(f"the vectors are not kept: {why}")
    else:
        say(f"the vectors are kept in {folder} ({made.values.nbytes / 1e6:,.1f} MB)")


def _checksum(block: Vectors) -> int:
    return int(google_crc32c.value(np.asarray(block)))
