"""YAML files, read without what can grow beyond bounds."""

from pathlib import Path
from typing import Any

import yaml

from bertcli.errors import check_regular, repeated

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
        loader = LOADER(text)
        node = loader.get_single_node()
        _check_keys(node)
        return None if node is None else loader.construct_document(node)
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


def _check_keys(node: Any) -> None:
    """Raise ValueError for a key that stands twice, of which the last would count."""
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    names = [key.value for key, _ in pairs if isinstance(key, yaml.ScalarNode)]
    if twice := repeated(names):
        raise ValueError(f"it has the key `{twice[0]}` twice")
    for child in [value for _, value in pairs] if pairs else node.value if isinstance(node, yaml.SequenceNode) else ():
        _check_keys(child)
