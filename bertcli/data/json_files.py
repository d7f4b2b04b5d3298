"""JSON files that the package has written, checked as they are read."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import UnionType
from typing import Any

from bertcli.data.atomic import write_text
from bertcli.errors import UserError, check_regular, first_line

Types = type | UnionType


def read_json(path: Path, hint: str, **types: Types) -> dict[str, Any]:
    """Read an object. Raises UserError, which names the file, if it is damaged or a value is missing or of another type."""
    check_regular(path)
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"`{path}` cannot be read: {first_line(error)}.", hint) from None
    check_values(path, hint, values, types)
    return dict(values)


def check_values(path: Path, hint: str, values: Any, types: Mapping[str, Types]) -> None:
    """Raise UserError if an object of a file is none, or a value in it is missing or of another type."""
    if not isinstance(values, dict):
        raise UserError(f"`{path}` is damaged: it does not hold an object.", hint)
    for name, wanted in types.items():
        if not isinstance(values.get(name), wanted):
            found = f"is {str(values[name])[:40]!r}" if name in values else "is missing"
            raise UserError(f"`{path}` is damaged: `{name}` {found}.", hint)


def write_json(path: Path, values: dict[str, Any], indent: int | None = None) -> None:
    """Write a JSON file atomically."""
    write_text(path, json.dumps(values, indent=indent, ensure_ascii=False) + "\n")
