"""A Ray cluster makes the shards that processes of this machine make."""

import importlib.util
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from bertcli.errors import UserError
from bertcli.lifecycle.make_pretraining_data import make_pretraining_data
from tests.training.processes.test_watch import free_port

PROJECT = Path(__file__).parents[3]
OPTIONS = {"max_seq_length": 32, "dupe_factor": 2, "workers": 1, "shards": 5}
needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs Ray: pip install 'bertcli[ray]'")
KILLER = """
import os, sys
from pathlib import Path
if any("default_worker" in part for part in sys.orig_argv):
    from bertcli.data.pretraining import writing
    make = writing.make_shard
    def killed_once(folder, tokenizer, rules, seed, shard):
        flag = Path(FLAG)
        if shard == 1 and not flag.exists():
            flag.touch()
            os.kill(os.getpid(), 9)
        return make(folder, tokenizer, rules, seed, shard)
    writing.make_shard = killed_once
"""


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.parquet")}


def make_on_ray(home: Path, out: Path, modules: Path, address: str | None = None) -> str:
    command = [sys.executable, "-m", "bertcli", "make-pretraining-data", "corpus.txt", "--tokenizer", "vocab"]
    command += ["--out", str(out), "--engine", "ray", *(["--ray-address", address] if address else [])]
    command += [f"--{name.replace('_', '-')}={value}" for name, value in OPTIONS.items()]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(modules), str(PROJECT)])}
    done = subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True, check=True)
    return done.stderr


def answers(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.slow
@needs_ray
@pytest.mark.torture
def test_a_ray_cluster_makes_the_same_shards_bit_for_bit(shards: Path, home: Path, tmp_path: Path) -> None:
    words = make_on_ray(home, tmp_path / "ray", tmp_path)
    assert contents(tmp_path / "ray") == contents(shards)
    assert "ray::" not in words
    assert "raylet" not in words.lower()
    assert len(words.splitlines()) <= 5


@pytest.mark.torture
@needs_ray
def test_the_shard_of_a_killed_worker_is_made_again(shards: Path, home: Path, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(KILLER.replace("FLAG", repr(str(tmp_path / "killed"))))
    words = make_on_ray(home, tmp_path / "ray", tmp_path)
    assert (tmp_path / "killed").exists()
    assert contents(tmp_path / "ray") == contents(shards)
    assert len(words.splitlines()) <= 5


@pytest.mark.torture
@needs_ray
def test_a_cluster_that_asks_for_a_token_is_reached_at_its_address(
    shards: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))  # of the token, which `ray start` makes
    port = free_port()
    head = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", "--include-dashboard=false"]
    with (
        tempfile.TemporaryDirectory() as folder,  # a short path, for Ray's sockets
        subprocess.Popen([*head, f"--port={port}", "--num-cpus=1", f"--temp-dir={folder}"], text=True) as cluster,
    ):
        try:
            while not answers(port):
                assert cluster.poll() is None
                time.sleep(0.2)
            make_on_ray(home, tmp_path / "ray", tmp_path, f"127.0.0.1:{port}")
        finally:
            cluster.terminate()
    assert contents(tmp_path / "ray") == contents(shards)


@needs_ray
@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "nowhere", "auto"])
def test_a_wrong_address_is_an_error_of_one_line(address: str, at_home: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        make_pretraining_data("corpus.txt", out=str(tmp_path / "o"), engine="ray", ray_address=address, **OPTIONS)
    assert "\n" not in error.value.message
    assert address in error.value.message
