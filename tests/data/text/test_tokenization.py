"""Tokens equal the original's, but where the Rust tokenizer cannot."""

import json
import unicodedata
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import transformers
from conftest import GOLDENS

from bertcli.data.labelled.examples import TextExamples
from bertcli.data.labelled.squad import SpanExample
from bertcli.data.packing.span_answers import TextFinder
from bertcli.data.packing.span_features import encode_spans
from bertcli.data.packing.text_features import encode_texts
from bertcli.data.packing.windows import WindowRules
from bertcli.data.text.tokenization import WordPiece, load_tokenizer, load_wordpiece
from bertcli.errors import UserError
from tests.data.text.tokenizers import SAVERS, SENTENCES, save_xlnet_pieces

LINES = [json.loads(line) for line in (GOLDENS / "tokenization.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("casing", ["uncased", "cased"])
def test_tokens_and_ids_equal_googles_on_every_line_that_can(casing: str) -> None:
    tokenizer = load_tokenizer(GOLDENS / "vocab.txt", cased=casing == "cased")
    different = []
    for line, encoding in zip(LINES, tokenizer.encode([line["text"] for line in LINES]), strict=True):
        if encoding.tokens != line[casing]["tokens"]:
            different.append(line["text"])
        else:
            assert encoding.ids == line[casing]["ids"]
    assert len(different) == {"uncased": 5, "cased": 3}[casing]
    assert all(differs_from_original(text, casing == "cased") for text in different)


def differs_from_original(text: str, cased: bool) -> bool:
    """Whether the Rust tokenizer may give other tokens than the original's tokenization.py.

    - Private-use characters: Rust drops them, the original keeps them (mostly as [UNK]).
    - Uncased: a capital sigma at the end of a Greek word is ς in Python's lower case, σ in Rust's.
    - The ideographs U+2B820 to U+2B91F: Rust does not put spaces around them.
    - Not checked: some 500 code points newer than Unicode 14, whose categories differ between Rust and Python.
    """
    for place, character in enumerate(text):
        if 0x2B820 <= ord(character) <= 0x2B91F or unicodedata.category(character) == "Co":
            return True
        ends_word = not text[place + 1 : place + 2].isalpha()
        if not cased and character == "Σ" and ends_word and text[max(place - 1, 0) : place].isalpha():
            return True
    return False


def test_the_listed_differences_are_private_use_final_sigma_and_one_range_of_ideographs() -> None:
    assert differs_from_original("a\ue000b", cased=True)
    assert differs_from_original("ΣΊΣΥΦΟΣ", cased=False)
    assert not differs_from_original("ΣΊΣΥΦΟΣ", cased=True)
    assert not differs_from_original("σ in the middle: Σα", cased=False)
    assert differs_from_original("x\U0002b8ffy", cased=True)
    plain = "".join(chr(point) for point in range(0x250) if unicodedata.category(chr(point)) not in ("Cn", "Co"))
    assert not differs_from_original(plain, cased=False)


@pytest.mark.parametrize(
    "rules", [{"strip_accents": False}, {"tokenize_chinese_chars": False}, {"do_lower_case": False}]
)
def test_a_model_keeps_its_own_rules_of_accents_and_ideographs(rules: dict[str, bool], tmp_path: Path) -> None:
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *["schon", "schön", "Schön", "中", "中文", "##文"]]
    (tmp_path / "vocab.txt").write_text("\n".join(tokens), encoding="utf-8")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer", **rules}))
    theirs = transformers.BertTokenizer.from_pretrained(tmp_path)
    ours = load_tokenizer(tmp_path)
    ours.save(tmp_path / "again")
    for tokenizer in (ours, load_tokenizer(tmp_path / "again")):
        assert tokenizer.encode(["Schön 中文"])[0].tokens == theirs.tokenize("Schön 中文")
    assert load_tokenizer(tmp_path / "again").digest == ours.digest != load_tokenizer(tmp_path / "vocab.txt").digest


def test_a_token_that_stands_twice_leaves_the_ids_of_the_others_alone(tmp_path: Path) -> None:
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "foo", "foo", "bar"]
    (tmp_path / "vocab.txt").write_text("\n".join(tokens), encoding="utf-8")
    tokenizer = load_tokenizer(tmp_path / "vocab.txt")
    tokenizer.save(tmp_path / "saved")
    assert tokenizer.encode_ids(["foo bar"]) == load_tokenizer(tmp_path / "saved").encode_ids(["foo bar"]) == [[6, 7]]
    assert [tokenizer.tokens[id_] for id_ in (6, 7)] == ["foo", "bar"]
    assert transformers.AutoTokenizer.from_pretrained(tmp_path / "saved").encode("foo bar") == [2, 6, 7, 3]


def test_special_tokens_in_text_are_text(google_tokenizer: WordPiece) -> None:
    tokens = google_tokenizer.encode(["a [MASK] and [SEP]"])[0].tokens
    assert tokens == ["a", "[", "mask", "]", "and", "[", "sep", "]"]


def test_special_tokens_in_text_are_text_for_xlnet_but_for_its_end_of_a_paragraph(tmp_path: Path) -> None:
    save_xlnet_pieces(tmp_path)
    ours = load_tokenizer(tmp_path)
    ids = ours.encode_ids([" ".join(ours.tokens)])[0]
    special = {token for token in ours.tokens if token.startswith("<") and token != "<unk>"}
    assert {ours.tokens[number] for number in ids} & special == {"<eop>"}
    assert ours.special("sep") == ours.vocab["<sep>"]


def test_words_up_to_200_characters_are_tokenized(google_tokenizer: WordPiece) -> None:
    assert google_tokenizer.encode(["a" * 200])[0].tokens[0] != "[UNK]"
    assert google_tokenizer.encode(["a" * 201])[0].tokens == ["[UNK]"]


@pytest.mark.parametrize("family", SAVERS)
def test_inputs_are_those_of_the_familys_own_tokenizer(family: str, tmp_path: Path) -> None:
    SAVERS[family](tmp_path)
    theirs, ours = transformers.AutoTokenizer.from_pretrained(tmp_path), load_tokenizer(tmp_path)
    texts = TextExamples(SENTENCES, SENTENCES[::-1], origin="here")
    for examples in (texts, replace(texts, pairs=None)):
        features = encode_texts(examples, ours, 512, None)
        wanted = theirs(examples.texts, examples.pairs)["input_ids"]
        assert [features.input_ids.take(np.array([row]))[0].tolist() for row in range(3)] == wanted
    theirs.backend_tokenizer.enable_padding(length=40)
    theirs.backend_tokenizer.enable_truncation(2)
    theirs.save_pretrained(tmp_path / "padded")
    assert load_tokenizer(tmp_path / "padded").encode_ids(SENTENCES) == ours.encode_ids(SENTENCES)
    ours.save(tmp_path / "again")
    assert load_tokenizer(tmp_path / "again").digest == ours.digest
    with pytest.raises(UserError, match="this needs a WordPiece one"):
        load_wordpiece(tmp_path)


@pytest.mark.parametrize("family", SAVERS)
def test_an_answer_is_spelt_as_in_its_context(family: str, tmp_path: Path) -> None:
    SAVERS[family](tmp_path)
    tokenizer = load_tokenizer(tmp_path)
    example = SpanExample("q", "who rode", ["The", "Queen,", "in", "Rome,", "saw", "it."], "Rome", 3, 3)
    (window,) = encode_spans([example], tokenizer, WindowRules(), training=True).windows
    finder = TextFinder(tokenizer)
    said = finder.find(window.tokens[window.start_position : window.end_position + 1], "Rome,")
    assert said in ("Rome", "Rome,")
    assert finder.find(["x"], "Rome,") == "Rome,"
