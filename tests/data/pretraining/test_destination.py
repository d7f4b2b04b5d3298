"""Data at a URL count as complete only when all of them are there."""

from pathlib import Path

import pytest

from bertcli.data.pretraining.shards import load_pretraining_examples
from bertcli.errors import UserError
from bertcli.lifecycle.make_pretraining_data import make_pretraining_data

pytest.importorskip("upath")
OPTIONS = {"max_seq_length": 32, "dupe_factor": 1, "workers": 1, "shards": 3}


def test_a_killed_upload_leaves_no_data_and_is_continued(
    at_home: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fsspec.implementations.memory import MemoryFileSystem

    out, sent, put = "memory://continued", [], MemoryFileSystem.put_file

    def killed(self, local, there, **options):
        sent.append(there)
        if len(sent) == 4:
            raise KeyboardInterrupt
        return put(self, local, there, **options)

    for options in (OPTIONS, {**OPTIONS, "shards": 2, "overwrite": True}):  # the second replaces the first
        sent.clear()
        monkeypatch.setattr(MemoryFileSystem, "put_file", killed)
        with pytest.raises(KeyboardInterrupt):
            make_pretraining_data("corpus.txt", tokenizer="vocab", out=out, **options)
        with pytest.raises(UserError, match="holds no pre-training data"):
            load_pretraining_examples(out, 0)
        make_pretraining_data("corpus.txt", tokenizer="vocab", out=out, **options)
        assert len(sent) == len(set(sent)) + 1  # only the interrupted file is sent again
        local = str(tmp_path / f"local-{options['shards']}")
        make_pretraining_data("corpus.txt", tokenizer="vocab", out=local, **{**options, "overwrite": False})
        wanted = {path.name: path.read_bytes() for path in Path(local).glob("*.parquet")}
        fs = MemoryFileSystem()
        assert {path.rsplit("/")[-1]: fs.cat(path) for path in fs.glob("/continued/*.parquet")} == wanted
        assert len(load_pretraining_examples(out, 0)) == len(load_pretraining_examples(local, 0))
    assert not list(Path().glob(".continued*"))


def test_a_url_with_other_files_is_kept(at_home: Path) -> None:
    import fsspec

    fsspec.filesystem("memory").pipe("/holiday/photo.jpg", b"photo")
    with pytest.raises(UserError, match="is not a folder of pre-training data"):
        make_pretraining_data("corpus.txt", tokenizer="vocab", out="memory://holiday", **OPTIONS)
