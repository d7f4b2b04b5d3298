"""Texts and pairs are encoded and cut as the original does."""

import gzip
import json

import numpy as np
from conftest import GOLDENS

from bertcli.data.labelled.examples import TextExamples
from bertcli.data.packing.text_features import cut_pair, encode_texts
from bertcli.data.text.tokenization import WordPiece, load_tokenizer


def test_classification_features_equal_googles(google_tokenizer: WordPiece) -> None:
    cased = load_tokenizer(GOLDENS / "vocab.txt", cased=True)
    with gzip.open(GOLDENS / "classifier" / "features.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [row for row in map(json.loads, file) if "error" not in row]
    for row in rows:
        pairs = None if row["text_b"] is None else [row["text_b"]]
        tokenizer = google_tokenizer if row["case"] == "uncased" else cased
        features = encode_texts(TextExamples([row["text_a"]], pairs, origin=""), tokenizer, row["max_seq_length"], None)
        ids, types = (
            column.take(np.array([0]))[0].tolist() for column in (features.input_ids, features.token_type_ids)
        )
        padding = [0] * (row["max_seq_length"] - len(ids))
        assert ids + padding == row["input_ids"]
        assert types + padding == row["segment_ids"]


def test_pairs_are_cut_as_googles() -> None:
    for row in json.loads((GOLDENS / "classifier" / "truncate.json").read_text()):
        assert cut_pair(row["a"], row["b"], row["max"]) == (len(row["out_a"]), len(row["out_b"]))
