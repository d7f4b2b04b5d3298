"""Text and data at URLs are read as those here; what cannot be reached is an error of two lines."""

import gzip
import lzma
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import zstandard

from bertcli import build_vocab, make_pretraining_data, pretrain
from bertcli.data.text.documents import find_text_files
from bertcli.data.text.files import read_text
from bertcli.errors import UserError

pytest.importorskip("upath")
OPTIONS = {"max_seq_length": 32, "dupe_factor": 1, "workers": 1, "shards": 3}
SHORT = {"size": "tiny", "steps": 2, "batch_size": 4, "precision": "float32"}


def write_corpus(fs, root: str, text: bytes) -> None:
    fs.pipe_file(f"{root}/a.txt", text)
    fs.pipe_file(f"{root}/b.txt.gz", gzip.compress(text))
    fs.pipe_file(f"{root}/c.txt.xz", lzma.compress(text))
    fs.pipe_file(f"{root}/d.txt.zst", zstandard.compress(text))
    fs.pipe_file(f"{root}/notes.pdf", b"%PDF")


def test_files_folders_and_patterns_at_urls_are_read_compressed_or_not(at_home: Path) -> None:
    import fsspec

    text = Path("corpus.txt").read_bytes()
    write_corpus(fsspec.filesystem("memory"), "/corpus", text)
    names = ["memory://corpus", "memory://corpus/*.txt.*", "memory://corpus/a.txt"]
    assert [len(find_text_files([name])) for name in names] == [4, 3, 1]
    assert {read_text(path) for path in find_text_files(names)} == {text.decode()}


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("cut.txt.gz", gzip.compress(b"word " * 9000, mtime=0)[:60], "cannot be read"),
        ("texts.zip", b"PK\3\4 and so on", "is not text but"),
        ("latin.txt", "é".encode("latin-1"), "is not UTF-8"),
        ("empty.txt", b"", "is empty"),
        (None, b"", "leads to no text file"),
    ],
)
def test_a_file_at_a_url_that_is_no_text_is_an_error(name: str, content: bytes, words: str, at_home: Path) -> None:
    import fsspec

    if name:
        fsspec.filesystem("memory").pipe(f"/damaged/{name}", content)
    with pytest.raises(UserError, match=words):
        make_pretraining_data(f"memory://damaged/{name or 'none.txt'}", tokenizer="vocab", out="o", **OPTIONS)


class _Texts(BaseHTTPRequestHandler):
    """A web server that says neither how long its texts are nor, of some, anything at all."""

    version = "1"

    def do_HEAD(self) -> None:
        if "silent" in self.path:
            time.sleep(5)
        self.send_response(200)
        self.send_header("ETag", self.version)
        self.end_headers()

    def do_GET(self) -> None:
        self.do_HEAD()
        self.wfile.write(b"the cat sat\non the mat\n\nthe dog ran\nto the tree\n" * 9)

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def web() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Texts) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_text_of_a_web_server_has_any_length_and_is_another_when_it_changes(
    at_home: Path, tmp_path: Path, web: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_pretraining_data(f"{web}/a.txt", tokenizer="vocab", out=str(tmp_path / "o"), **OPTIONS)
    assert made.documents == 10
    make_pretraining_data(f"{web}/a.txt", tokenizer="vocab", out=str(tmp_path / "o"), **OPTIONS)  # complete already
    monkeypatch.setattr(_Texts, "version", "2")
    with pytest.raises(UserError, match="holds data of other text"):
        make_pretraining_data(f"{web}/a.txt", tokenizer="vocab", out=str(tmp_path / "o"), **OPTIONS)


def test_a_web_server_that_does_not_answer_is_left_and_none_is_written_to(
    at_home: Path, web: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bertcli.data.remote.LONGEST_WAIT", 1)
    with pytest.raises(UserError, match="it has not answered for 1 seconds"):
        make_pretraining_data(f"{web}/silent.txt", tokenizer="vocab", out="o", **OPTIONS)
    with pytest.raises(UserError, match="a web server gives files and takes none"):
        make_pretraining_data(f"{web}/a.txt", tokenizer="vocab", out=f"{web}/o", dry_run=True, **OPTIONS)
    with pytest.raises(UserError, match="holds no pre-training data, or cannot be reached"):
        pretrain(data=f"{web}/silent/data", **SHORT)


def test_runs_are_not_written_to_urls(at_home: Path) -> None:
    for command, given in ((pretrain, {}), (build_vocab, {"text": "corpus.txt"})):
        with pytest.raises(UserError, match="--out s3://bucket/run is a URL, which is not written to"):
            command(out="s3://bucket/run", **given)
    assert not Path("s3:").exists()


def test_a_scheme_that_nothing_opens_is_an_error(at_home: Path) -> None:
    with pytest.raises(UserError, match="nosuch"):
        make_pretraining_data("nosuch://bucket/a.txt", tokenizer="vocab", out="o", **OPTIONS)


def test_data_at_a_url_train_what_those_here_train(at_home: Path, tmp_path: Path) -> None:
    make_pretraining_data("corpus.txt", tokenizer="vocab", out="memory://trained", **OPTIONS)
    make_pretraining_data("corpus.txt", tokenizer="vocab", out=str(tmp_path / "here"), **OPTIONS)
    there = pretrain(data="memory://trained", out=str(tmp_path / "a"), **SHORT)
    assert there.losses == pretrain(data=str(tmp_path / "here"), out=str(tmp_path / "b"), **SHORT).losses


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """The address of a server of S3 on this machine."""
    pytest.importorskip("moto.server")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    for _ in range(300):
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.1)
    yield f"http://127.0.0.1:{port}"
    process.kill()


@pytest.mark.slow
def test_a_bucket_of_s3_serves_text_and_data(
    s3: str, at_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3fs = pytest.importorskip("s3fs")
    for name, value in {"ACCESS_KEY_ID": "x", "SECRET_ACCESS_KEY": "x", "ENDPOINT_URL": s3}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    bucket = s3fs.S3FileSystem(skip_instance_cache=True)
    bucket.mkdir("texts")
    write_corpus(bucket, "texts/corpus", Path("corpus.txt").read_bytes())
    make_pretraining_data("s3://texts/corpus/*.txt", tokenizer="vocab", out="s3://texts/data", **OPTIONS)
    make_pretraining_data("corpus.txt", tokenizer="vocab", out=str(tmp_path / "here"), **OPTIONS)
    for path in (tmp_path / "here").glob("*.parquet"):
        assert bucket.cat(f"texts/data/{path.name}") == path.read_bytes()
    losses = pretrain(data="s3://texts/data", out=str(tmp_path / "a"), **SHORT).losses
    assert losses == pretrain(data=str(tmp_path / "here"), out=str(tmp_path / "b"), **SHORT).losses
    with pytest.raises(UserError, match="There is no bucket `none`"):
        make_pretraining_data("corpus.txt", tokenizer="vocab", out="s3://none/data", **OPTIONS)
    with pytest.raises(UserError, match="holds no pre-training data"):
        pretrain(data="s3://none/data", out=str(tmp_path / "c"), **SHORT)
