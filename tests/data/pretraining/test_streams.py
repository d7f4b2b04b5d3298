"""XLNet's rows: equal to those of data_utils.py, row for row."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from bertcli.data.pretraining.draws import Draws
from bertcli.data.pretraining.streams import StreamRules, begins_word, make_rows, sample_mask, stream_of
from bertcli.data.text.corpus import Corpus

GOLDENS = Path(__file__).parents[2] / "goldens" / "xlnet"
TOKENS = json.loads((GOLDENS / "tokens.json").read_text(encoding="utf-8"))
BEGINS = np.array([begins_word(piece) for piece, _ in TOKENS["pieces"]])
CLS, SEP, EOD = 3, 4, 7


def read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(gzip.decompress((GOLDENS / name).read_bytes()))
    return found


def corpus() -> Corpus:
    """The text by the original's pieces; it has no two spaces in a row, and nothing to normalize."""
    tokenizer = Tokenizer(models.Unigram(list(map(tuple, TOKENS["pieces"])), unk_id=0))
    split = [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace("▁", "always")]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(split)
    documents = (GOLDENS / "text.txt").read_text(encoding="utf-8").strip().split("\n\n")
    lines = [document.split("\n") for document in documents]
    tokens = [tokenizer.encode(line).ids for document in lines for line in document]
    ends = np.cumsum(list(map(len, lines))).tolist()
    bounds = np.cumsum([0, *map(len, tokens)]).tolist()
    return Corpus(np.concatenate(tokens).astype(np.uint32), bounds, list(zip([0, *ends], ends, strict=False)))


def test_pieces_that_begin_words() -> None:
    assert BEGINS.astype(int).tolist() == TOKENS["begins_word"]


@pytest.mark.parametrize(
    "case", read("sample_mask.json.gz")["cases"], ids=lambda case: f"{len(case['seg'])}-{case['goal']}"
)
def test_masks_equal_the_original(case: dict[str, Any]) -> None:
    sampler, rules = np.random.RandomState(case["np_seed"]), StreamRules(SEP, CLS, BEGINS, 64, 32, None)
    mask = sample_mask(np.array(case["seg"]), rules, sampler, case["goal"], case["reverse"])
    assert mask.astype(int).tolist() == case["mask"]


@pytest.mark.parametrize("name", ["create_data_uni.json.gz", "create_data_bi.json.gz"])
def test_rows_equal_the_original(name: str) -> None:
    golden = read(name)
    flags, records = golden["flags"], golden["records"]
    shape = (flags["seq_len"], flags["reuse_len"], flags["num_predict"], flags["bsz_per_host"], flags["bi_data"])
    ids, sentences = stream_of(corpus(), EOD)
    ids, sentences = ids[:-1], sentences[:-1]  # no blank line ends the text
    draws, sampler = Draws(golden["random_seed"]), np.random.RandomState(0)
    rows = make_rows(ids, sentences, StreamRules(SEP, CLS, BEGINS, *shape), sampler, draws)
    assert len(rows) == golden["num_batch"] * flags["bsz_per_host"]
    for row, record in zip(rows, records, strict=True):
        assert row.input_ids.tolist() == record["input"]
        assert row.token_type_ids.tolist() == record["seg_id"]
        assert row.is_masked.astype(int).tolist() == record["is_masked"]
        assert [int(row.follows)] == record["label"]


def test_a_text_that_is_too_short_gives_no_row() -> None:
    ids = np.arange(60)
    assert (
        make_rows(ids, ids % 20 < 10, StreamRules(SEP, CLS, BEGINS, 64, 32, 10), np.random.RandomState(0), Draws(0))
        == []
    )
