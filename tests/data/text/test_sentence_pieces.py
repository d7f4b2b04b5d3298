"""Sentence pieces are read as ALBERT's code reads them."""

import json
from pathlib import Path

import pytest
from conftest import GOLDENS
from transformers import AlbertTokenizer

from bertcli.data.text.sentence_pieces import SentencePieces, begins_word, normalize
from bertcli.data.text.tokenization import load_tokenizer

UNITS = json.loads((GOLDENS / "albert" / "units.json").read_text())


@pytest.fixture
def pieces(tmp_path: Path) -> SentencePieces:
    """The golden's model, saved and opened."""
    vocab = [tuple(piece) for piece in json.loads((GOLDENS / "albert" / "pieces.json").read_text())]
    AlbertTokenizer(vocab=vocab).save_pretrained(tmp_path)
    opened = load_tokenizer(tmp_path)
    assert isinstance(opened, SentencePieces)
    return opened


def test_text_is_normalized_as_by_the_original() -> None:
    for text, cased, uncased in UNITS["preprocess_text"]:
        assert normalize(text, cased=True) == cased
        assert normalize(text, cased=False) == uncased


def test_words_begin_where_the_originals_do() -> None:
    for piece, begins in UNITS["is_start_piece_sp"]:
        assert begins_word(piece) == begins, piece


def test_ids_are_the_originals_and_a_comma_after_a_digit_is_a_piece_of_its_own(pieces: SentencePieces) -> None:
    units = [unit for unit in UNITS["encode_pieces"] if "é" not in unit["text"] and "[MASK]" not in unit["text"]]
    assert len(units) == 5
    assert pieces.encode_ids([unit["text"] for unit in units]) == [unit["ids"] for unit in units]
