"""TensorFlow's checkpoint files (V2), read and written without TensorFlow.

A checkpoint is an index, a LevelDB table of protocol buffers (tensorflow/core/util/tensor_bundle), and data files.
"""

import struct
from collections.abc import Iterator
from operator import eq
from pathlib import Path
from typing import Any, TypeVar

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from bertcli.errors import UserError

DTYPES: dict[int, np.dtype[Any]] = {
    number: np.dtype(name) for number, name in ((1, "<f4"), (2, "<f8"), (3, "<i4"), (9, "<i8"), (19, "<f2"))
}
TYPE_NUMBERS = {dtype: number for number, dtype in DTYPES.items()}
MAGIC = 0xDB4775248B80FB57
FOOTER_BYTES = 48
RESTART_INTERVAL = 16
BLOCK_BYTES = 1 << 18
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
    dtype = DTYPES.get(_first(entry, 1, 0))
    if dtype is None:
        what = f"The tensor `{name}` has a type that cannot be read."
        raise UserError(what, "Use a checkpoint with float32 weights.")
    shape = [_first(_fields(bytes(dim)), 1, 0) for dim in _fields(_first(entry, 2, b"")).get(2, [])]
    offset, size = _first(entry, 4, 0), _first(entry, 5, 0)
    raw = data[_first(entry, 3, 0)][offset : offset + size].tobytes()
    if _masked_crc(raw) != _first(entry, 6, 0):
        raise _damaged(Path(name))
    tensor: NDArray[np.generic] = np.frombuffer(raw, dtype=dtype).reshape(shape)
    return tensor


def _table_entries(table: bytes, path: Path) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and values of a LevelDB table."""
    if len(table) < FOOTER_BYTES or struct.unpack("<Q", table[-8:])[0] != MAGIC:
        raise UserError(f"`{path}` is not the index of a TensorFlow checkpoint.", "Give the folder of a V2 checkpoint.")
    _, place = _handle(table[-FOOTER_BYTES:], 0)  # of the meta index, which is empty
    index, _ = _handle(table[-FOOTER_BYTES:], place)
    for _, value in _block_entries(_block(table, index, path)):
        yield from _block_entries(_block(table, _handle(value, 0)[0], path))


def _block(table: bytes, handle: tuple[int, int], path: Path) -> bytes:
    offset, size = handle
    if _masked_crc(table[offset : offset + size + 1]) != struct.unpack_from("<I", table, offset + size + 1)[0]:
        raise _damaged(path)
    if table[offset + size] != 0:
        what = f"`{path}` is compressed and cannot be read."
        raise UserError(what, "Save the checkpoint with TensorFlow 1 or 2 again.")
    return table[offset : offset + size]


def _block_entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield keys and values; a key is stored without the bytes that it shares with the key before."""
    end = len(block) - 4 - 4 * struct.unpack("<I", block[-4:])[0]
    place, key = 0, b""
    while place < end:
        shared, place = _varint(block, place)
        fresh, place = _varint(block, place)
        length, place = _varint(block, place)
        key = key[:shared] + block[place : place + fresh]
        yield key, block[place + fresh : place + fresh + length]
        place += fresh + length


def _handle(data: bytes, place: int) -> tuple[tuple[int, int], int]:
    offset, place = _varint(data, place)
    size, place = _varint(data, place)
    return (offset, size), place


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[place] & 0x7F) << shift
        shift, place = shift + 7, place + 1
        if data[place - 1] < 0x80:
            return value, place


def _fields(message: bytes) -> Fields:
    """Parse a protocol buffer into its fields by number."""
    fields: Fields = {}
    place = 0
    while place < len(message):
        tag, place = _varint(message, place)
        value: int | bytes
        if tag & 7 == VARINT:
            value, place = _varint(message, place)
        elif tag & 7 == FIXED32:
            value, place = struct.unpack("<I", message[place : place + 4])[0], place + 4
        else:
            length, place = _varint(message, place)
            value, place = message[place : place + length], place + length
        fields.setdefault(tag >> 3, []).append(value)
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
            block = _entries_block(pending, RESTART_INTERVAL)
            index[bytes([key[0] + 1]) if key == last else key] = _encode(len(table)) + _encode(len(block))
            table += _sealed(block)
            pending = {}
    handles = b""
    for block in (_entries_block({}, RESTART_INTERVAL), _entries_block(index, 1)):
        handles += _encode(len(table)) + _encode(len(block))
        table += _sealed(block)
    return table + handles.ljust(FOOTER_BYTES - 8, b"\0") + struct.pack("<Q", MAGIC)


def _entries_block(entries: dict[bytes, bytes], restart_interval: int) -> bytes:
    block, before, restarts = b"", b"", [0]
    for number, (key, value) in enumerate(entries.items()):
        shared = [*map(eq, key, before), False].index(False) if number % restart_interval else 0
        if number and not number % restart_interval:
            restarts.append(len(block))
        block += _encode(shared) + _encode(len(key) - shared) + _encode(len(value)) + key[shared:] + value
        before = key
    return block + struct.pack(f"<{len(restarts) + 1}I", *restarts, len(restarts))


def _sealed(block: bytes) -> bytes:
    """A block with its trailer: no compression, and a checksum of both."""
    return block + b"\0" + struct.pack("<I", _masked_crc(block + b"\0"))


def _field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return _encode(number << 3 | VARINT) + _encode(value)
    return _encode(number << 3 | BYTES) + _encode(len(value)) + value


def _encode(value: int) -> bytes:
    encoded = b""
    while value >= 0x80:
        encoded += bytes([value & 0x7F | 0x80])
        value >>= 7
    return encoded + bytes([value])


def _masked_crc(data: bytes) -> int:
    """CRC-32C, rotated and shifted so that checksums of checksums stay good (LevelDB)."""
    crc = int(google_crc32c.value(data))
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
