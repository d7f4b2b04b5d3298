"""Tokens equal the original's, but where the Rust tokenizer cannot."""

import json
import unicodedata
from pathlib import Path

import pytest
import transformers
from conftest import GOLDENS

from bertcli.data.text.tokenization import differs_from_original, load_tokenizer

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
