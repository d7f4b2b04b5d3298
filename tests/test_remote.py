"""Data made on a Ray cluster and kept on other machines equal those that are made and kept here."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bertcli import build_vocab, make_pretraining_data, pretrain
from bertcli.errors import UserError

LINES = ["the river rose above its bank", "she went to the bank to ask for money", "the bank was closed that day"]
LINES += ["boats lay on the bank of the river", "money is kept in a bank", "he sat by the river and ate"]
OPTIONS = {"dupe_factor": 2, "max_seq_length": 32, "shards": 3, "workers": 2}


def needs(*libraries: str) -> pytest.MarkDecorator:
    missing = [name for name in libraries if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a text of 24 documents and a vocabulary."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    documents = ["\n".join([*LINES[n % 6 :], f"page {n}"]) for n in range(24)]
    (tmp_path / "text.txt").write_text("\n\n".join(documents))
    build_vocab("text.txt", out="vocab", vocab_size=120)
    return tmp_path


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.suffix in (".parquet", ".txt")}


@pytest.mark.slow
@needs("ray")
def test_a_ray_cluster_makes_the_same_shards_bit_for_bit(text: Path) -> None:
    make_pretraining_data("text.txt", tokenizer="vocab", out="local", **OPTIONS)
    make_pretraining_data("text.txt", tokenizer="vocab", out="ray", engine="ray", **OPTIONS)
    assert len(files(text / "local")) > 3
    assert files(text / "ray") == files(text / "local")


@pytest.mark.slow
@needs("ray")
def test_the_shard_of_a_killed_ray_worker_is_made_again(text: Path) -> None:
    make_pretraining_data("text.txt", tokenizer="vocab", out="local", **OPTIONS)
    (text / "sitecustomize.py").write_text(
        "import os, sys, threading, time\n"
        "from pathlib import Path\n"
        "if any('default_worker' in part for part in sys.orig_argv):\n"
        "    import bertcli.data.pretraining.engines as engines\n"
        "    make = engines.make_shard\n"
        "    def killed_once(folder, tokenizer, rules, seed, shard):\n"
        f"        flag = Path({str(text / 'killed')!r})\n"
        "        if shard == 1 and not flag.exists():\n"
        "            flag.touch()\n"
        "            os.kill(os.getpid(), 9)\n"
        "        return make(folder, tokenizer, rules, seed, shard)\n"
        "    engines.make_shard = killed_once\n"
    )
    command = [sys.executable, "-m", "bertcli", "make-pretraining-data", "text.txt", "--tokenizer", "vocab"]
    command += ["--out", "ray", "--engine", "ray", "--dupe-factor", "2", "--max-seq-length", "32", "--shards", "3"]
    root = str(Path(__file__).parent.parent)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(text), root])}
    subprocess.run([*command, "--workers", "2"], check=True, env=environment)
    assert (text / "killed").exists()
    assert files(text / "ray") == files(text / "local")


@needs("upath")
def test_text_and_data_may_lie_at_urls(text: Path) -> None:
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.pipe("/corpus/part.txt", (text / "text.txt").read_bytes())
    make_pretraining_data("memory://corpus/*.txt", tokenizer="vocab", out="memory://data", **OPTIONS)
    make_pretraining_data("text.txt", tokenizer="vocab", out="local", **OPTIONS)
    for name, content in files(text / "local").items():
        assert any(memory.cat(found) == content for found in memory.find("/data") if found.endswith(name))
    size = {"steps": 2, "batch_size": 4, "size": "tiny"}
    assert pretrain(data="memory://data", out="far", **size).losses == pretrain(data="local", out="near", **size).losses


@needs("upath")
def test_a_url_that_cannot_be_read_is_an_error_of_two_lines(text: Path) -> None:
    with pytest.raises(UserError, match="no text file"):
        make_pretraining_data("memory://nowhere/*.txt", tokenizer="vocab", out="data")
    with pytest.raises(UserError, match="holds no pre-training data"):
        pretrain(data="memory://nowhere", steps=1)


@pytest.mark.slow
@needs("upath", "s3fs", "moto", "flask")
def test_a_bucket_of_s3_serves_text_and_data(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(port=0)
    server.start()
    try:
        host, port = server.get_host_and_port()
        for name, value in {"ACCESS_KEY_ID": "x", "SECRET_ACCESS_KEY": "x", "DEFAULT_REGION": "us-east-1"}.items():
            monkeypatch.setenv(f"AWS_{name}", value)
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        import s3fs

        bucket = s3fs.S3FileSystem()
        bucket.mkdir("bucket")
        bucket.put_file(str(text / "text.txt"), "bucket/corpus/text.txt")
        make_pretraining_data("s3://bucket/corpus", tokenizer="vocab", out="s3://bucket/data", **OPTIONS)
        make_pretraining_data("text.txt", tokenizer="vocab", out="local", **OPTIONS)
        for name, content in files(text / "local").items():
            assert any(bucket.cat(found) == content for found in bucket.find("bucket/data") if found.endswith(name))
        assert pretrain(data="s3://bucket/data", steps=2, batch_size=4, size="tiny").steps == 2
    finally:
        server.stop()
