"""What makes the shards: processes of this machine, or a Ray cluster. The shards are the same bit for bit."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bertcli.data.atomic import replacing
from bertcli.data.pretraining.instances import InstanceRules
from bertcli.data.pretraining.writing import counts_of, make_shard, text_of
from bertcli.data.text.tokenization import WordPiece
from bertcli.errors import UserError

ENGINES = ("local", "ray")


@dataclass(frozen=True)
class ShardJob:
    """What all shards of a folder have in common."""

    folder: Path
    tokenizer: WordPiece
    rules: InstanceRules
    seed: int


def make_locally(job: ShardJob, shards: Sequence[int], workers: int | None) -> Iterator[int]:
    """Make shards in several processes; yield the number of each when it is done."""
    from joblib import Parallel, delayed

    count = min(workers or os.cpu_count() or 1, len(shards) or 1)
    make = delayed(make_shard)
    jobs = (make(job.folder, job.tokenizer, job.rules, job.seed, shard) for shard in shards)
    yield from Parallel(n_jobs=count, return_as="generator_unordered")(jobs)


def make_on_ray(job: ShardJob, shards: Sequence[int], workers: int | None, address: str | None) -> Iterator[int]:
    """Make shards on a Ray cluster, which needs no common disk; the shard of a lost worker is made again."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise UserError(
            "--engine ray needs Ray.", "Install it: pip install 'bertcli[ray]'; or leave out --engine"
        ) from None
    local = {} if address else {"num_cpus": workers, "include_dashboard": False}
    try:
        ray.init(address or "local", log_to_driver=False, logging_level="ERROR", **local)
    except (ConnectionError, ValueError) as error:
        what = f"The Ray cluster at `{address}` cannot be reached: {str(error).splitlines()[0]}"
        raise UserError(what, "Check --ray-address, or leave it out for a cluster on this machine.") from None
    try:
        make, common = ray.remote(_make_elsewhere), ray.put(job)
        at_once = 2 * int(ray.cluster_resources().get("CPU", 1))
        left = list(shards)
        running: dict[Any, int] = {}
        while left or running:
            now, left = left[: at_once - len(running)], left[at_once - len(running) :]
            for shard in now:
                running[make.remote(common, shard, text_of(job.folder, shard).read_bytes())] = shard
            (done,), _ = ray.wait(list(running), num_returns=1)
            for name, content in ray.get(done).items():  # the counts come last, as in `make_shard`
                with replacing(job.folder / name) as part:
                    part.write_bytes(content)
            yield running.pop(done)
    finally:
        ray.shutdown()


def _make_elsewhere(job: ShardJob, shard: int, text: bytes) -> dict[str, bytes]:
    """Make a shard from the bytes of its text; return the files, by name."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        text_of(folder, shard).parent.mkdir()
        text_of(folder, shard).write_bytes(text)
        make_shard(folder, job.tokenizer, job.rules, job.seed, shard)
        counts = counts_of(folder, shard)
        return {path.name: path.read_bytes() for path in (counts.with_suffix(".parquet"), counts)}
