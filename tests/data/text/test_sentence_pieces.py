"""Sentence pieces are read as ALBERT's code reads them."""

import json
from pathlib import Path

import pytest
from conftest import GOLDENS
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from transformers import AlbertTokenizer, XLNetTokenizer

from bertcli.data.text.sentence_pieces import AlbertPieces, begins_word, normalize
from bertcli.data.text.tokenization import Subwords, load_tokenizer

UNITS = json.loads((GOLDENS / "albert" / "units.json").read_text())


@pytest.fixture
def pieces(tmp_path: Path) -> AlbertPieces:
    """The golden's model, saved and opened."""
    vocab = [tuple(piece) for piece in json.loads((GOLDENS / "albert" / "pieces.json").read_text())]
    AlbertTokenizer(vocab=vocab).save_pretrained(tmp_path)
    opened = load_tokenizer(tmp_path)
    assert isinstance(opened, Subwords)
    assert opened.original
    assert opened.encode_ids(["The sum, ``C''"]) == opened.original.encode_ids(["The sum, ``C''"])
    return opened.original


def test_text_is_normalized_as_by_the_original() -> None:
    for text, cased, uncased in UNITS["preprocess_text"]:
        assert normalize(text, cased=True) == cased
        assert normalize(text, cased=False) == uncased


def test_words_begin_where_the_originals_do() -> None:
    for piece, begins in UNITS["is_start_piece_sp"]:
        assert begins_word(piece) == begins, piece


def test_ids_are_the_originals_and_a_comma_after_a_digit_is_a_piece_of_its_own(pieces: AlbertPieces) -> None:
    units = UNITS["encode_pieces"]
    assert pieces.ids_of_normalized([unit["text"] for unit in units]) == [unit["ids"] for unit in units]
    assert pieces.encode_ids(["  The\u00a0sum, ``Ç''"]) == pieces.ids_of_normalized(["the sum, ``c''"])


XLNET = json.loads((GOLDENS / "xlnet" / "tokens.json").read_text())


def open_xlnet(folder: Path, more: list[tuple[str, float]] | None = None, uncased: bool = False) -> Subwords:
    """The golden's model, with more pieces perhaps, saved and opened."""
    XLNetTokenizer(vocab=[*map(tuple, XLNET["pieces"]), *(more or [])], do_lower_case=uncased).save_pretrained(folder)
    opened = load_tokenizer(folder)
    assert isinstance(opened, Subwords)
    return opened


@pytest.mark.parametrize("uncased", [False, True])
def test_ids_are_those_of_xlnet(uncased: bool, tmp_path: Path) -> None:
    opened = open_xlnet(tmp_path, uncased=uncased)
    cases = [case for case in XLNET["cases"] if case["lower"] == uncased]
    assert opened.encode_ids([case["text"] for case in cases]) == [case["ids"] for case in cases]


def learn_model(path: Path, **options: object) -> SentencePieceProcessor:
    """A model as the authors' `spiece.model` and `spm.model`, learnt from a few lines."""
    lines = ["The home-centred king (of Rome) rode out.", "A ship sank… in 1,999.", "They said: no, no."] * 9
    trained = {"sentence_iterator": iter(lines), "model_prefix": str(path.with_suffix("")), "vocab_size": 60}
    SentencePieceTrainer.train(**trained, hard_vocab_limit=False, minloglevel=2, **options)
    return SentencePieceProcessor(model_file=str(path))


def test_the_authors_own_files_are_read_as_sentencepiece_reads_them(tmp_path: Path) -> None:
    symbols = ["<eop>", ".", "(", ")", '"', "-"]
    control = ["<cls>", "<sep>", "<pad>", "<mask>", "<eod>"]
    theirs = learn_model(tmp_path / "spiece.model", user_defined_symbols=symbols, control_symbols=control)
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "XLNetTokenizer", "do_lower_case": false}')
    texts = ["The home-centred (Rome), ship.", "no (no) <mask> out. <eop> A-ship", "in Rome (out)."]
    ours = load_tokenizer(tmp_path)
    assert ours.encode_ids(texts) == theirs.encode(texts)
    ours.save(tmp_path / "saved")
    assert load_tokenizer(tmp_path / "saved").encode_ids(texts) == theirs.encode(texts)


def test_the_map_of_characters_of_a_deberta_3_is_read_and_saved(tmp_path: Path) -> None:
    special = {"pad_id": 0, "bos_id": 1, "eos_id": 2, "unk_id": 3, "pad_piece": "[PAD]", "bos_piece": "[CLS]"}
    theirs = learn_model(tmp_path / "spm.model", **special, eos_piece="[SEP]", unk_piece="[UNK]")
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "DebertaV2Tokenizer", "do_lower_case": false}')
    texts = ["no… ﬁne １，９ Rome™", "A ship [MASK] sank [SEP] out."]
    ours = load_tokenizer(tmp_path)
    assert ours.encode_ids(texts) == theirs.encode(texts)
    ours.save(tmp_path / "saved")
    again = load_tokenizer(tmp_path / "saved")
    assert (again.encode_ids(texts), again.digest) == (theirs.encode(texts), ours.digest)


def test_a_comma_after_a_digit_is_a_piece_of_its_own_in_xlnet_too(tmp_path: Path) -> None:
    opened = open_xlnet(tmp_path, [("00,", -1.0), ("▁9,", -1.0)])
    names = [[opened.tokens[id_] for id_ in ids] for ids in opened.encode_ids(["2000, 9,"])]
    assert names == [["▁", "2", "0", "0", "0", ",", "▁", "9", ","]]
