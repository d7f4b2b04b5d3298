"""YAML files, read without what can grow beyond bounds."""

from pathlib import Path
from typing import Any

import yaml

from bertcli.errors import check_regular

LARGEST_BYTES, DEEPEST = 1_000_000, 50
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's is six times as fast, where PyYAML has it


def read_yaml(path: Path) -> Any:
    """The values of a file. Raises ValueError, in one line, if it is not YAML, has aliases or is too large; OSError if it cannot be read."""
    check_regular(path)
    if path.stat().st_size > LARGEST_BYTES:
        raise ValueError(f"it has more than {LARGEST_BYTES / 1e6:.0f} MB")
    try:
        text = path.read_text(encoding="utf-8")
        _check(text)
        return yaml.load(text, LOADER)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(" ".join(str(error).split())) from None


def _check(text: str) -> None:
    """Raise ValueError for aliases, ten lines of which can spell a billion values, and for nesting that would end the process."""
    depth = 0
    for event in yaml.parse(text, LOADER):
        if isinstance(event, yaml.AliasEvent):
            raise ValueError("aliases (`*name`) are not allowed")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise ValueError("its values are nested too deeply")
