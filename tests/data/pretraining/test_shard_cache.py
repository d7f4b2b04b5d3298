"""The cache stays within its limit, is shared, and never gives damaged rows."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bertcli.data.checksums import CHECKSUMS, check_files
from bertcli.data.pretraining import shard_cache
from bertcli.data.pretraining.shard_cache import ShardCache
from bertcli.errors import RunError, UserError


def paths(shards: Path) -> list[Path]:
    return sorted(shards.glob("*.parquet"))


def arrow_bytes(cache: Path) -> int:
    return sum(path.stat().st_size for path in cache.glob("*.arrow"))


def test_the_least_recently_used_shard_is_removed_and_stays_readable_where_it_is_open(
    shards: Path, cache: Path
) -> None:
    first, second, third = (ShardCache(1e9).open(path, None) for path in paths(shards)[:3])
    for age, path in enumerate(sorted(cache.glob("*.arrow"), key=lambda path: path.stat().st_mtime)):
        os.utime(path, (1000 + age, 1000 + age))
    before, rows = {path.name for path in cache.glob("*.arrow")}, first.to_pylist()
    ShardCache(1e9).open(paths(shards)[0], None)  # now the last used
    ShardCache(arrow_bytes(cache)).open(paths(shards)[3], None)
    assert len(before - {path.name for path in cache.glob("*.arrow")}) == 1
    assert second.slice(0, 3).to_pylist()
    ShardCache(1).open(paths(shards)[4], None)
    assert len(list(cache.glob("*.arrow"))) == 1
    assert first.to_pylist() == rows
    assert third.to_pylist()


def test_processes_that_share_the_cache_fetch_a_shard_once(
    shards: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched, fetch = [], ShardCache._fetch
    monkeypatch.setattr(ShardCache, "_fetch", lambda self, *job: fetched.append(job) or fetch(self, *job))
    with ThreadPoolExecutor(8) as threads:
        tables = list(threads.map(lambda _: ShardCache(1e9).open(paths(shards)[0], None), range(16)))
    assert len(fetched) == 1
    assert all(table.equals(tables[0]) for table in tables)
    with ThreadPoolExecutor(8) as threads:  # with room for one, each removes what another has just fetched
        many = list(threads.map(lambda n: ShardCache(1).open(paths(shards)[n % 5], None), range(40)))
    assert [len(table) for table in many[:5]] == [len(ShardCache(1e9).open(path, None)) for path in paths(shards)]


def test_a_damaged_file_of_the_cache_is_made_again_and_what_a_kill_left_is_removed(shards: Path, cache: Path) -> None:
    shard = paths(shards)[0]
    rows = ShardCache(1e9).open(shard, None).to_pylist()
    kept = next(cache.glob("*.arrow"))
    content = bytearray(kept.read_bytes())
    content[len(content) // 2] ^= 1
    kept.unlink()
    kept.write_bytes(content)
    left = cache / ".other.arrow.part"
    left.touch()
    os.utime(left, (0, 0))
    assert ShardCache(1e9).open(shard, None).to_pylist() == rows
    assert not left.exists()


def test_a_damaged_shard_is_named(shards: Path, cache: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "shard.parquet"
    damaged.write_bytes(paths(shards)[0].read_bytes()[:-50])
    with pytest.raises(UserError, match=r"shard\.parquet` is damaged: it differs from its checksum"):
        ShardCache(1e9).open(damaged, shard_cache.digest_of(paths(shards)[0]))
    with pytest.raises(UserError, match=r"shard\.parquet` is damaged"):
        ShardCache(1e9).open(damaged, None)
    (tmp_path / CHECKSUMS).write_text(f"{'0' * 64}  gone.json\n")
    with pytest.raises(UserError, match=r"gone\.json` is missing"):
        check_files(tmp_path)


def test_a_shard_is_asked_for_again_when_the_network_fails(
    shards: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upath = pytest.importorskip("upath")
    there = upath.UPath("memory://asked-again/shard.parquet")
    there.fs.pipe(there.path, paths(shards)[0].read_bytes())
    digest, fails = shard_cache.digest_of(paths(shards)[0]), [3]
    get_file = type(there.fs).get_file

    def failing(self, *arguments, **options):
        fails[0] -= 1
        if fails[0] >= 0:
            raise ConnectionError("the connection was reset\nby peer")
        return get_file(self, *arguments, **options)

    monkeypatch.setattr(type(there.fs), "get_file", failing)
    monkeypatch.setattr(shard_cache, "WAITS", (0, 0))
    with pytest.raises(RunError, match="cannot be reached: the connection was reset") as error:
        ShardCache(1e9).open(there, digest)
    assert error.value.exit_code == 1
    fails[0] = 2
    assert len(ShardCache(1e9).open(there, digest))
    there.fs.pipe(there.path, b"other bytes")
    assert len(ShardCache(1e9).open(there, digest))  # from the cache
    next(cache.glob("*.arrow")).unlink()
    with pytest.raises(UserError, match="differs from its checksum"):
        ShardCache(1e9).open(there, digest)
