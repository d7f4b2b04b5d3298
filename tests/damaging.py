"""Damages files at random, and tells whether what reads them ends with a result or with an error for a person."""

import json
import random
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import yaml

from bertcli.errors import UserError

ODD = (None, True, -1, 0, 2**63, 1e300, float("nan"), "", "x" * 50, "../..", [], [[]], {}, {"a": 1})
ODD_BYTES = (
    b"\0",
    b"\r",
    b"\n\n",
    b'"',
    b"\t",
    b",",
    b"[",
    b"{",
    b"\xff",
    b"\xef\xbb\xbf",
    b"9" * 5000,
    b"\xed\xa0\x80",
    b"\\ud800",
)
SECONDS = 60  # for a case, on a machine that does much else


class TooLong(BaseException):
    """A case did not end in time."""


def change_value(values: Any, chance: random.Random) -> Any:
    """JSON or YAML with one value, somewhere, removed or replaced by an odd one."""
    if not isinstance(values, dict | list) or not values or chance.random() < 0.1:
        return chance.choice(ODD)
    key = chance.choice(list(values)) if isinstance(values, dict) else chance.randrange(len(values))
    if chance.random() < 0.2:
        del values[key]
    else:
        values[key] = change_value(values[key], chance)
    return values


def changed_bytes(content: bytes, chance: random.Random) -> bytes:
    """A file cut, with a part of it again, with odd bytes in it, or with some bytes changed."""
    changed = bytearray(content)
    if chance.random() < 0.3:
        del changed[chance.randrange(len(changed)) :]
    if changed and chance.random() < 0.2:
        start, end = sorted(chance.randrange(len(changed) + 1) for _ in range(2))
        changed[end:end] = changed[start:end]
    for _ in range(chance.choice((0, 0, 1, 3))):
        place = chance.randrange(len(changed) + 1)
        changed[place:place] = chance.choice(ODD_BYTES)
    for _ in range(chance.choice((0, 1, 20)) if changed else 0):
        changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed)


def damage(path: Path, chance: random.Random) -> None:
    """Cut a file, change bytes of it or, where it has values, one of these."""
    content = path.read_bytes()
    lines = content.splitlines(keepends=True)
    is_lines = len(lines) > 1 and all(line.startswith(b'{"') for line in lines)
    if is_lines and chance.random() < 0.7:
        row = chance.randrange(len(lines))
        lines[row] = json.dumps(change_value(json.loads(lines[row]), chance)).encode() + b"\n"
        path.write_bytes(b"".join(lines))
    elif not is_lines and path.suffix in (".json", ".yaml") and chance.random() < 0.7:
        load, dump = (json.loads, json.dumps) if path.suffix == ".json" else (yaml.safe_load, yaml.safe_dump)
        path.write_text(dump(change_value(load(content.decode()), chance)))
    else:
        path.write_bytes(changed_bytes(content, chance))


def _too_long(number: int, frame: Any) -> None:
    raise TooLong


def failure(read: Callable[[], object], path: Path, names_file: bool = False) -> str:
    """What is wrong with how a reader ends; "" for a result, or an error of one line with a hint that leaves the file as it was."""
    before = path.read_bytes()
    signal.signal(signal.SIGALRM, _too_long)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        with torch.random.fork_rng():
            read()
    except UserError as error:
        if "\n" in error.message or not error.hint:
            return f"not one line: {error}"
        if names_file and path.name not in str(error):
            return f"does not name the file: {error}"
    except TooLong:
        return f"took more than {SECONDS} s"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:150]}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return "" if path.exists() and path.read_bytes() == before else "the file was changed"
