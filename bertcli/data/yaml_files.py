"""YAML files, read without what can grow beyond bounds."""

from pathlib import Path
from typing import Any

import yaml

from bertcli.errors import check_regular

LARGEST_BYTES = 1_000_000


class _Loader(yaml.SafeLoader):
    """A loader of plain values without aliases, ten lines of which can spell a billion values."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(None, None, "aliases (`*name`) are not allowed", event.start_mark)
        return super().compose_node(parent, index)


def read_yaml(path: Path) -> Any:
    """The values of a file. Raises ValueError, in one line, if it is not YAML, has aliases or is too large; OSError if it cannot be read."""
    check_regular(path)
    if path.stat().st_size > LARGEST_BYTES:
        raise ValueError(f"it has more than {LARGEST_BYTES / 1e6:.0f} MB")
    try:
        return yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(" ".join(str(error).split())) from None
