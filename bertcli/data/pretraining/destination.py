"""Where finished pre-training data go: a folder, or a URL."""

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertcli.data.atomic import part_of, replace
from bertcli.data.json_files import read_json
from bertcli.data.remote import MANIFEST, is_url, path_of, reaching, upload
from bertcli.errors import UserError


@dataclass(frozen=True)
class Destination:
    """A folder for pre-training data, here or elsewhere."""

    name: str

    @property
    def part(self) -> Path:
        """The local folder in which the data are made before they are moved; a killed process is continued there."""
        return part_of(Path(Path(self.name).name) if is_url(self.name) else Path(self.name))

    def manifest(self) -> dict[str, Any]:
        """The manifest of the data that are there; empty if there are none. Raises UserError if anything else is."""
        folder = path_of(self.name)
        manifest = folder / MANIFEST
        with reaching(self.name) if is_url(self.name) else nullcontext():
            if manifest.exists():
                return read_json(manifest, f"Remove it and start again: rm -r {self.name}")
            if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
                what = f"`{self.name}` exists and is not a folder of pre-training data."
                raise UserError(what, "Give another: --out NEW-FOLDER")
        return {}

    def put(self, part: Path) -> None:
        """Move the data from `part` to their place."""
        if is_url(self.name):
            upload(part, self.name)
        else:
            replace(part, Path(self.name))
