"""Where finished pre-training data go: a folder, or a URL."""

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

from filelock import FileLock

from bertcli.data.atomic import part_of, replace, replacing
from bertcli.data.json_files import read_json
from bertcli.data.remote import cache_folder, is_url, path_of, reaching
from bertcli.errors import UserError, quoted

MANIFEST, TOKENIZER = "manifest.json", "tokenizer"
BUCKETS = {"s3", "s3a", "gs", "gcs", "az", "abfs"}  # folders need not be created, and buckets are never created


@dataclass(frozen=True)
class Destination:
    """A local or remote folder for pre-training data."""

    name: str

    @property
    def part(self) -> Path:
        """The local folder in which the data are made before they are moved; a killed process is continued there."""
        if not is_url(self.name):
            return part_of(Path(self.name))
        digest = sha256(self.name.rstrip("/").encode()).hexdigest()[:8]
        return part_of(Path(f"{self.name.rstrip('/').rsplit('/', 1)[-1]}-{digest}"))

    @property
    def _has_bucket(self) -> bool:
        return self.name.split("://")[0] in BUCKETS

    def manifest(self) -> dict[str, Any]:
        """The manifest of the data there; empty if there are none. Raises UserError if something else is there."""
        if self.name.startswith(("http://", "https://")):
            what = f"`{self.name}` cannot be written to: a web server gives files and takes none."
            raise UserError(what, "Give --out a local folder, or a bucket such as s3://bucket/folder.")
        folder = cast(Any, path_of(self.name))
        with reaching(self.name):
            if self._has_bucket and not folder.fs.exists(bucket := folder.path.split("/")[0]):
                raise UserError(f"There is no bucket `{bucket}`.", "Make it, or check the name after --out.")
            if (folder / MANIFEST).exists():
                return read_json(folder / MANIFEST, f"Remove it and start again: rm -r {quoted(self.name)}")
            if folder.exists() and (not folder.is_dir() or any(map(_is_other, folder.iterdir()))):
                what = f"`{self.name}` exists and is not a folder of pre-training data."
                raise UserError(what, "Give another: --out NEW-FOLDER")
        return {}

    def put(self, part: Path) -> None:
        """Move the data to their place, at a URL by removing the old manifest first and writing the new one last."""
        if not is_url(self.name):
            replace(part, Path(self.name))
            return
        there = cast(Any, path_of(self.name))
        with reaching(self.name):
            if (there / MANIFEST).exists():
                (there / MANIFEST).unlink()
            files = [path for path in part.rglob("*") if path.is_file() and not path.name.startswith(".")]
            for path in sorted(files, key=lambda path: (path == part / MANIFEST, path)):
                if path == part / MANIFEST:
                    self._remove_others(there, path)
                target = there / path.relative_to(part).as_posix()
                if not self._has_bucket:
                    target.parent.mkdir(parents=True, exist_ok=True)
                target.fs.put_file(str(path), target.path)
                path.unlink()  # when it is there: after a kill, only the rest is sent

    def _remove_others(self, there: Any, manifest: Path) -> None:
        """Remove the shards of earlier data that the manifest does not name."""
        ours = {shard["file"] for shard in read_json(manifest, "")["shards"]}
        for path in there.iterdir():
            if path.suffix == ".parquet" and path.name not in ours:
                path.unlink()


def _is_other(path: Path) -> bool:
    """Whether a file is not of an unfinished upload; in a local folder, every file is other."""
    return not is_url(path) or not (path.suffix == ".parquet" or path.name.rstrip("/") == TOKENIZER)


def no_data(name: str | Path) -> UserError:
    """The error for a folder or a URL without pre-training data."""
    if str(name).startswith(("http://", "https://")):
        return UserError(f"`{name}` holds no pre-training data, or cannot be reached.", "Check the name: --data FOLDER")
    is_text = not is_url(name) and Path(name).is_file()
    text, out = (quoted(name), "pretraining-data") if is_text else ("TEXT", quoted(name))
    hint = f"Make some: bert make-pretraining-data {text} --out {out}"
    return UserError(f"`{name}` holds no pre-training data.", hint)


def copy_small_files(url: str) -> Path:
    """Copy the manifest and the tokenizer of data at a URL to the cache; return their folder. Raises UserError if there are none."""
    there = cast(Any, path_of(url))
    with reaching(url):
        if not (there / MANIFEST).exists():
            raise no_data(url)
        manifest = (there / MANIFEST).read_bytes()
    folder = cache_folder() / "data" / sha256(url.encode() + manifest).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_suffix(".lock")):
        if not (folder / MANIFEST).exists():
            with reaching(url), replacing(folder / TOKENIZER) as part:
                part.mkdir()
                for path in (there / TOKENIZER).iterdir():
                    path.fs.get_file(path.path, str(part / path.name))
            with replacing(folder / MANIFEST) as part:
                part.write_bytes(manifest)
    return folder
