"""Pre-training data of several shards, here and in the memory file system."""

from pathlib import Path

import pytest

from bertcli.lifecycle.make_pretraining_data import make_pretraining_data

OPTIONS = {"max_seq_length": 32, "dupe_factor": 2, "workers": 1, "shards": 5}


@pytest.fixture(scope="session")
def shards(home: Path) -> Path:
    """A folder of data in five shards."""
    out = home.parent / "five-shards"
    make_pretraining_data(str(home / "corpus.txt"), tokenizer=str(home / "vocab"), out=str(out), **OPTIONS)
    return out


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, where shards will lie."""
    monkeypatch.setenv("BERT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "shards"
