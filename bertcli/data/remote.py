"""Files on other machines, by URL: s3://, gs://, hdfs:// and whatever else fsspec opens."""

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import IO, Any, cast

from bertcli.data.atomic import replacing
from bertcli.errors import UserError

MANIFEST = "manifest.json"


def is_url(name: str | Path) -> bool:
    """Whether a name has a scheme, such as `s3://bucket/corpus`."""
    return "://" in str(name)


def path_of(name: str) -> Path:
    """A local path, or one of fsspec with the same methods. Raises UserError if a library for the URL is missing."""
    if not is_url(name):
        return Path(name)
    try:
        from upath import UPath

        with reaching(name):
            path = UPath(name)
            assert path.fs  # imported when first asked for
    except ImportError as error:
        scheme = name.split("://")[0]
        library = {"s3": "s3fs", "gs": "gcsfs", "hdfs": "pyarrow"}.get(scheme, f"fsspec[{scheme}]")
        raise UserError(
            f"`{name}`: {error}.", f"Install what reads it: pip install 'bertcli[remote]' {library}"
        ) from None
    return cast(Path, path)


@contextmanager
def reaching(url: str | Path) -> Iterator[None]:
    """Turn what a file system on the network raises into UserError."""
    try:
        yield
    except (UserError, ImportError):
        raise
    except Exception as error:  # each file system raises its own
        what = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(
            f"`{url}` cannot be reached: {what}.", "Check the name, the network and the credentials."
        ) from None


def find_files(name: str) -> list[Path]:
    """The file that a URL names, or those that its pattern matches, sorted; none if there is none."""
    with reaching(name):
        path = cast(Any, path_of(name))
        if path.exists():
            return [path]
        found = sorted(path.fs.glob(path.path)) if "*" in name else []
        return [path_of(path.fs.unstrip_protocol(each)) for each in found]


def open_url(path: Path) -> IO[bytes]:
    """Open a remote file for reading; the end of its name says how it is compressed."""
    import fsspec

    remote = cast(Any, path)
    with reaching(path):
        file = fsspec.open(str(path), compression="infer", **remote.storage_options).open()
    return io.BufferedReader(file)


def upload(folder: Path, url: str) -> None:
    """Copy the files of a folder of data to a URL, the manifest last: without it the data do not count as complete."""
    out = cast(Any, path_of(url))
    with reaching(url):
        if (out / MANIFEST).exists():
            (out / MANIFEST).unlink()
        files = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")]
        for path in sorted(files, key=lambda path: path == folder / MANIFEST):
            target = out / path.relative_to(folder).as_posix()
            target.parent.mkdir(parents=True, exist_ok=True)
            target.fs.put_file(str(path), target.path)


def download(url: str) -> Path:
    """Copy the data at a URL to the cache, each file once; return the folder. A new manifest means new data."""
    source = cast(Any, path_of(url))
    with reaching(url):
        if not (source / MANIFEST).exists():
            raise UserError(
                f"`{url}` holds no pre-training data.", f"Make some: bert make-pretraining-data TEXT --out {url}"
            )
        manifest = (source / MANIFEST).read_bytes()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bertcli"
    folder = cache / sha256(url.encode() + manifest).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / MANIFEST).exists():
        with reaching(url):
            for path in source.rglob("*"):
                local = folder / path.relative_to(source).as_posix()
                if path.is_file() and path.name != MANIFEST and not local.exists():
                    local.parent.mkdir(parents=True, exist_ok=True)
                    with replacing(local) as part:
                        path.fs.get_file(path.path, str(part))
        with replacing(folder / MANIFEST) as part:
            part.write_bytes(manifest)
    return folder
