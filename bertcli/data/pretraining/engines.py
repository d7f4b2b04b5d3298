"""Making the shards in processes of this machine, or on a Ray cluster: the same shards, bit for bit."""

import os
import signal
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bertcli.data.atomic import replacing
from bertcli.data.pretraining import writing
from bertcli.data.pretraining.instances import InstanceRules
from bertcli.data.text.tokenization import WordPiece
from bertcli.errors import RunError, UserError, check_extra, first_line

CONNECT_SECONDS = 5
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_BACKEND_LOG_LEVEL": "fatal", "RAY_DEDUP_LOGS": "0"}


@dataclass(frozen=True)
class ShardJob:
    """What all shards of a folder have in common."""

    folder: Path
    tokenizer: WordPiece
    rules: InstanceRules
    seed: int


def make_locally(job: ShardJob, shards: Sequence[int], workers: int | None) -> Iterator[int]:
    """Make shards in several processes; yield the number of each when it is done."""
    from joblib import Parallel, cpu_count, delayed

    count = min(workers or cpu_count(), len(shards) or 1)
    make = delayed(writing.make_shard)
    jobs = (make(job.folder, job.tokenizer, job.rules, job.seed, shard) for shard in shards)
    yield from Parallel(n_jobs=count, return_as="generator_unordered")(jobs)


def make_on_ray(job: ShardJob, shards: Sequence[int], workers: int | None, address: str | None) -> Iterator[int]:
    """Make shards on a Ray cluster, which needs no common disk; the shard of a lost worker is made again.

    Raises UserError if Ray or the cluster is missing, RunError if a shard fails after five retries.
    """
    ray = _connect(workers, address)
    try:
        make = ray.remote(_make_elsewhere).options(max_retries=5)
        common, left, running = ray.put(job), list(shards), dict[Any, int]()
        while left or running:
            at_once = 2 * max(1, int(ray.cluster_resources().get("CPU", 1)))  # a cluster may grow
            for shard in left[: max(0, at_once - len(running))]:
                running[make.remote(common, shard, writing.text_of(job.folder, shard).read_bytes())] = shard
                left.remove(shard)
            (done,), _ = ray.wait(list(running), num_returns=1)
            for name, content in ray.get(done).items():  # the counts come last, as in `make_shard`
                with replacing(job.folder / name) as part:
                    part.write_bytes(content)
            yield running.pop(done)
    except ray.exceptions.RayTaskError as error:
        raise error.as_instanceof_cause() from None
    except ray.exceptions.RayError as error:
        what = f"The Ray cluster failed: {first_line(error)}."
        raise RunError(what, "Run the same command again: finished shards are kept.") from None
    finally:
        with _silent_stderr():
            ray.shutdown()


def check_ray(address: str | None) -> None:
    """Raise UserError if Ray is missing, or nothing answers at its address, where Ray itself would wait for minutes."""
    check_extra("ray", "ray", use="--engine ray", instead="leave out --engine")
    if address in (None, "auto", "local"):
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not (host and port.isdigit()):
        raise UserError(f"`{address}` is not the address of a Ray cluster.", "Give HOST:PORT, ray://HOST:PORT or auto.")
    try:
        socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise _unreachable(address, error) from None


def _connect(workers: int | None, address: str | None) -> Any:
    """Start a cluster on this machine, or connect to one; return the module."""
    settings = QUIET | ({"RAY_AUTH_MODE": "token"} if address and _has_token() else {})
    os.environ.update({name: value for name, value in settings.items() if name not in os.environ})
    import ray

    local = {} if address else {"num_cpus": workers, "include_dashboard": False}
    handler = signal.getsignal(signal.SIGTERM)
    try:
        with _silent_stderr():
            ray.init(address or "local", log_to_driver=False, logging_level="ERROR", **local)
    except (OSError, ValueError, RuntimeError) as error:
        raise _unreachable(address or "this machine", error) from None
    finally:
        with suppress(ValueError):  # outside the main thread
            signal.signal(signal.SIGTERM, handler)  # Ray's exits with 15
    return ray


def _has_token() -> bool:
    """Whether this user has a token, which `ray start` asks for by default and Ray shows only if RAY_AUTH_MODE says so."""
    path = os.environ.get("RAY_AUTH_TOKEN_PATH", "~/.ray/auth_token")
    return "RAY_AUTH_TOKEN" in os.environ or Path(path).expanduser().is_file()


@contextmanager
def _silent_stderr() -> Iterator[None]:
    """Keep Ray's own log lines, which no setting keeps back, from the file descriptor that its C++ writes to."""
    kept, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nothing, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nothing)


def _unreachable(address: str, error: Exception) -> UserError:
    what = f"The Ray cluster at `{address}` cannot be reached: {first_line(error)}."
    hint = "Check --ray-address and the cluster's token (RAY_AUTH_TOKEN, or ~/.ray/auth_token), or leave --ray-address out."
    return UserError(what, hint)


def _make_elsewhere(job: ShardJob, shard: int, text: bytes) -> dict[str, bytes]:
    """Make a shard from the bytes of its text; return the files, by name."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        writing.text_of(folder, shard).parent.mkdir()
        writing.text_of(folder, shard).write_bytes(text)
        writing.make_shard(folder, job.tokenizer, job.rules, job.seed, shard)
        counts = writing.counts_of(folder, shard)
        return {path.name: path.read_bytes() for path in (counts.with_suffix(".parquet"), counts)}
