"""Files on other machines, by URL: s3://, gs://, hdfs:// and whatever else fsspec opens."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from bertcli.errors import UserError, first_line

LIBRARIES = {"s3": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "az": "adlfs", "abfs": "adlfs"}  # what fsspec opens them with
LONGEST_WAIT = 20  # seconds for a web server
CHECK = "Check the name, the network and the credentials, and run the same command again."


def is_url(name: str | Path) -> bool:
    """Whether a name has a scheme, such as `s3://bucket/corpus`."""
    return "://" in str(name)


def path_of(name: str | Path) -> Path:
    """A local path, or a remote one with the same methods. Raises UserError if a library for the URL is missing."""
    if not is_url(name) or not isinstance(name, str):
        return Path(name) if isinstance(name, str) else name
    scheme = name.split("://")[0]
    try:
        from upath import UPath

        with reaching(name):
            path = UPath(name, **_options(scheme))
            assert path.fs  # its library is imported when first asked for
    except ImportError:
        install = f"pip install 'bertcli[remote]' {LIBRARIES.get(scheme, '')}".rstrip()
        raise UserError(f"`{name}` needs a library that opens {scheme}://.", f"Install it: {install}") from None
    return cast(Path, path)


def _options(scheme: str) -> dict[str, Any]:
    """Options of the file system: a web server that accepts a request may never answer it."""
    if scheme not in ("http", "https"):
        return {}
    from aiohttp import ClientTimeout

    return {"client_kwargs": {"timeout": ClientTimeout(total=None, sock_connect=LONGEST_WAIT, sock_read=LONGEST_WAIT)}}


@contextmanager
def reaching(url: str | Path) -> Iterator[None]:
    """Turn what a remote file system raises into UserError; errors of local paths pass."""
    if not is_url(url):
        yield
        return
    try:
        yield
    except (UserError, ImportError, UnicodeError):
        raise
    except Exception as error:  # each file system raises its own
        raise unreachable(url, error) from None


def unreachable(url: str | Path, error: Exception) -> UserError:
    """The error for a URL that a file system cannot read or write."""
    what = f"it has not answered for {LONGEST_WAIT} seconds" if isinstance(error, TimeoutError) else first_line(error)
    if isinstance(error, FileNotFoundError) and what in ("FileNotFoundError", str(url), str(getattr(url, "path", ""))):
        what = "there is no such file"
    return UserError(f"`{url}` cannot be reached: {what}.", CHECK)


def find_files(name: str, endings: tuple[str, ...]) -> list[Path]:
    """The file that a URL names, or those of a folder with such endings, or those that a pattern matches, sorted."""
    path = cast(Any, path_of(name))
    with reaching(name):
        if "*" in name or "[" in name:
            found = [path_of(path.fs.unstrip_protocol(each)) for each in path.fs.glob(path.path)]
        elif path.is_dir():
            found = [child for child in path.iterdir() if child.name.endswith(endings)]
        else:
            found = [path] if path.exists() else []
        return sorted((each for each in found if each.is_file()), key=str)


def cache_folder() -> Path:
    """Where copies of remote files and opened shards lie: `$BERT_CACHE`, else with all that is kept for a user."""
    return Path(os.environ.get("BERT_CACHE") or user_cache())


def user_cache() -> Path:
    """The folder `bertcli` among the user's caches. Raises RuntimeError if there is no home."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bertcli"


def status_of(path: Path) -> os.stat_result:
    """The size and age of a file, here or elsewhere."""
    with reaching(path):
        return path.stat()


def is_empty(path: Path) -> bool:
    """Whether a file has no bytes; a web server need not say how many it has."""
    return status_of(path).st_size == 0 and _about(path).get("size", 0) == 0


def version_of(path: Path, status: os.stat_result) -> int | str:
    """When a file was changed, in nanoseconds, or what a web server says of that; 0 where neither is known."""
    try:
        modified = int(status.st_mtime_ns)
    except (AttributeError, TypeError):
        modified = 0
    about = {} if modified else _about(path)
    return modified or next((str(about[key]) for key in ("ETag", "Last-Modified") if key in about), 0)


def _about(path: Path) -> dict[str, Any]:
    """What a remote file system says of a file; nothing of one that is here."""
    if not is_url(path):
        return {}
    there = cast(Any, path)
    with reaching(path):
        return dict(there.fs.info(there.path))
