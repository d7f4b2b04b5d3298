"""What config.json says of a baseline: its method, the kind of task and the labels."""

from pathlib import Path
from typing import NamedTuple

from bertcli.data.json_files import read_json
from bertcli.errors import UserError
from bertcli.kinds import KINDS

CONFIG = "config.json"
BASELINE = "baseline"  # its key that holds the method
MEND = "Restore it, or make it again with `bert baseline`."


class Description(NamedTuple):
    """Method, kind of task, and labels by their numbers."""

    method: str
    kind: str
    labels: dict[int, str]


def method_of(model: str) -> str:
    """The method of the baseline in a folder; "" for a model that is none."""
    path = Path(model) / CONFIG
    return str(read_json(path, "Restore it, or make the model again.").get(BASELINE, "")) if path.is_file() else ""


def description_of(folder: Path) -> Description:
    """What the baseline in a folder is. Raises UserError if its file is damaged."""
    path = folder / CONFIG
    saved = read_json(path, MEND, **{BASELINE: str, "kind": str, "id2label": dict})
    labels = [*saved["id2label"].values()]
    if saved["kind"] not in KINDS or not all(isinstance(label, str) for label in labels):
        raise UserError(f"`{path}` is damaged: its kind or its labels are none.", MEND)
    return Description(saved[BASELINE], saved["kind"], dict(enumerate(labels)))
