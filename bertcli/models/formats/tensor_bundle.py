"""TensorFlow's checkpoints (V2), a LevelDB table of protocol buffers and data files, read and written without it."""

import struct
from collections.abc import Iterator
from operator import eq
from pathlib import Path
from typing import TypeVar, cast

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from bertcli.errors import UserError

DTYPES = {1: "<f4", 2: "<f8", 3: "<i4", 9: "<i8", 19: "<f2"}
TYPE_NUMBERS = {np.dtype(name): number for number, name in DTYPES.items()}
MAGIC = 0xDB4775248B80FB57
FOOTER_BYTES = 48
RESTART_INTERVAL = 16
BLOCK_BYTES = 1 << 18
MOST_SHARDS = 10_000
VARINT, BYTES, FIXED32 = 0, 2, 5  # wire types of protocol buffers

Fields = dict[int, list[int | bytes]]
IntOrBytes = TypeVar("IntOrBytes", int, bytes)


def read_bundle(prefix: Path) -> dict[str, NDArray[np.generic]]:
    """Read the tensors of a checkpoint by name; `prefix` is its path without `.index`.

    Raises UserError if it is not such a checkpoint, or a checksum is wrong.
    """
    index = prefix.with_name(prefix.name + ".index")
    try:
        entries = dict(_table_entries(index.read_bytes(), index))
        shards = _first(_fields(entries.pop(b"", b"")), 1, 1)
        if shards > MOST_SHARDS:
            raise _damaged(prefix)
        files = [prefix.with_name(f"{prefix.name}.data-{shard:05}-of-{shards:05}") for shard in range(shards)]
        data: list[NDArray[np.uint8]] = [np.memmap(file, dtype=np.uint8, mode="r") for file in files]
        return {name.decode(): _tensor(name.decode(), _fields(value), data) for name, value in entries.items()}
    except FileNotFoundError as error:
        raise UserError(f"The checkpoint lacks `{error.filename}`.", "Put all its files into one folder.") from None
    except (IndexError, ValueError, struct.error):
        raise _damaged(prefix) from None


def _damaged(path: Path) -> UserError:
    return UserError(f"A checksum of `{path}` is wrong: the checkpoint is damaged.", "Download or copy it again.")


def _tensor(name: str, entry: Fields, data: list[NDArray[np.uint8]]) -> NDArray[np.generic]:
    if (dtype := DTYPES.get(_first(entry, 1, 0))) is None:
        raise UserError(f"The tensor `{name}` has a type that cannot be read.", "Give a checkpoint in float32.")
    shape = [_first(_fields(bytes(dim)), 1, 0) for dim in _fields(_first(entry, 2, b"")).get(2, [])]
    offset, size = _first(entry, 4, 0), _first(entry, 5, 0)
    raw = data[_first(entry, 3, 0)][offset : offset + size].tobytes()
    if _masked_crc(raw) != _first(entry, 6, 0):
        raise _damaged(Path(name))
    return cast(NDArray[np.generic], np.frombuffer(raw, dtype=dtype).reshape(shape))


def _table_entries(table: bytes, path: Path) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and values of a LevelDB table."""
    if len(table) < FOOTER_BYTES or struct.unpack("<Q", table[-8:])[0] != MAGIC:
        raise UserError(f"`{path}` is not the index of a TensorFlow checkpoint.", "Give the folder of a V2 checkpoint.")
    _, _, offset, size, _ = _varints(table[-FOOTER_BYTES:], 0, 4)  # after the meta index, which is empty, the index
    for _, value in _block_entries(_block(table, offset, size, path)):
        offset, size, _ = _varints(value, 0, 2)
        yield from _block_entries(_block(table, offset, size, path))


def _block(table: bytes, offset: int, size: int, path: Path) -> bytes:
    if _masked_crc(table[offset : offset + size + 1]) != struct.unpack_from("<I", table, offset + size + 1)[0]:
        raise _damaged(path)
    if table[offset + size] != 0:
        raise UserError(f"`{path}` is compressed and cannot be read.", "Save it with TensorFlow 1 or 2 again.")
    return table[offset : offset + size]


def _block_entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield keys and values; a key is stored without the bytes that it shares with the key before."""
    end = len(block) - 4 - 4 * struct.unpack("<I", block[-4:])[0]
    place, key = 0, b""
    while place < end:
        shared, fresh, length, place = _varints(block, place, 3)
        key = key[:shared] + block[place : place + fresh]
        yield key, block[place + fresh : place + fresh + length]
        place += fresh + length


def _varints(data: bytes, place: int, count: int) -> list[int]:
    """So many numbers from a place on, and the place after them."""
    numbers = []
    for _ in range(count):
        value = shift = 0
        while data[place] >= 0x80:
            value |= (data[place] & 0x7F) << shift
            shift, place = shift + 7, place + 1
        numbers.append(value | data[place] << shift)
        place += 1
    return [*numbers, place]


def _fields(message: bytes) -> Fields:
    """Parse a protocol buffer into its fields by number."""
    fields: Fields = {}
    place = 0
    while place < len(message):
        tag, place = _varints(message, place, 1)
        value, start = (0, place) if tag & 7 == FIXED32 else _varints(message, place, 1)
        place = start + {VARINT: 0, FIXED32: 4}.get(tag & 7, value)
        data = message[start:place]
        number = struct.unpack("<I", data)[0] if tag & 7 == FIXED32 else value
        fields.setdefault(tag >> 3, []).append(number if tag & 7 in (VARINT, FIXED32) else data)
    return fields


def _first(fields: Fields, number: int, default: IntOrBytes) -> IntOrBytes:
    value = fields.get(number, [default])[0]
    return value if isinstance(value, type(default)) else default


def write_bundle(tensors: dict[str, NDArray[np.generic]], prefix: Path) -> None:
    """Write tensors as a checkpoint with one data file, byte for byte as TensorFlow's saver does."""
    entries = {b"": _field(1, 1) + _field(3, _field(1, 1))}  # one shard; version of the producer
    offset = 0
    with prefix.with_name(f"{prefix.name}.data-00000-of-00001").open("wb") as file:
        for name in sorted(tensors):
            array = np.ascontiguousarray(tensors[name])
            raw = array.tobytes()
            shape = b"".join(_field(2, _field(1, size)) for size in array.shape)
            entry = _field(1, TYPE_NUMBERS[array.dtype.newbyteorder("<")]) + _field(2, shape)
            entry += (_field(4, offset) if offset else b"") + _field(5, len(raw))
            entries[name.encode()] = entry + b"\x35" + struct.pack("<I", _masked_crc(raw))
            file.write(raw)
            offset += len(raw)
    prefix.with_name(f"{prefix.name}.index").write_bytes(_table(entries))


def _table(entries: dict[bytes, bytes]) -> bytes:
    """A LevelDB table: blocks of entries, an empty meta index, an index of the blocks, a footer."""
    table, index = b"", {}
    pending: dict[bytes, bytes] = {}
    last = max(entries)
    for key in sorted(entries):
        pending[key] = entries[key]
        if key == last or sum(len(k) + len(v) for k, v in pending.items()) >= BLOCK_BYTES:
            table, index[bytes([key[0] + 1]) if key == last else key] = _with_block(table, pending, RESTART_INTERVAL)
            pending = {}
    table, of_meta_index = _with_block(table, {}, RESTART_INTERVAL)
    table, of_index = _with_block(table, index, 1)
    return table + (of_meta_index + of_index).ljust(FOOTER_BYTES - 8, b"\0") + struct.pack("<Q", MAGIC)


def _with_block(table: bytes, entries: dict[bytes, bytes], restart_interval: int) -> tuple[bytes, bytes]:
    """A table with one more block, which has a trailer (no compression, a checksum of both), and where the block is."""
    block, before, restarts = b"", b"", [0]
    for number, (key, value) in enumerate(entries.items()):
        shared = [*map(eq, key, before), False].index(False) if number % restart_interval else 0
        if number and not number % restart_interval:
            restarts.append(len(block))
        block += _encode(shared, len(key) - shared, len(value)) + key[shared:] + value
        before = key
    block += struct.pack(f"<{len(restarts) + 1}I", *restarts, len(restarts))
    return table + (block + b"\0" + struct.pack("<I", _masked_crc(block + b"\0"))), _encode(len(table), len(block))


def _field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return _encode(number << 3 | VARINT, value)
    return _encode(number << 3 | BYTES, len(value)) + value


def _encode(*values: int) -> bytes:
    """Numbers as varints."""
    encoded = b""
    for value in values:
        while value >= 0x80:
            encoded += bytes([value & 0x7F | 0x80])
            value >>= 7
        encoded += bytes([value])
    return encoded


def _masked_crc(data: bytes) -> int:
    """CRC-32C, rotated and shifted so that checksums of checksums stay good (LevelDB)."""
    crc = int(google_crc32c.value(data))
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
