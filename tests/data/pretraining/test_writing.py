"""The manifest sums up the shards."""

import json
import math
from collections import Counter
from pathlib import Path

import pytest
from conftest import write_corpus

from bertcli.lifecycle.build_vocab import build_vocab
from bertcli.lifecycle.make_pretraining_data import make_pretraining_data
from tests.lifecycle.test_make_pretraining_data import rows_of


@pytest.mark.parametrize("masking", ["static", "dynamic"])
def test_the_manifest_has_the_entropy_of_token_frequencies(workspace: Path, masking: str) -> None:
    corpus = str(write_corpus(Path("corpus.txt")))
    build_vocab(corpus, vocab_size=120)
    make_pretraining_data(corpus, masking=masking, shards=2)
    column = "masked_lm_ids" if masking == "static" else "input_ids"
    special = set() if masking == "static" else {2, 3}  # [CLS] and [SEP] are never masked
    seen = Counter(token for row in rows_of("pretraining-data") for token in row[column] if token not in special)
    expected = -sum(count / seen.total() * math.log(count / seen.total()) for count in seen.values())
    made = json.loads(Path("pretraining-data/manifest.json").read_text())
    assert made["token_entropy"] == pytest.approx(expected, abs=1e-3)
