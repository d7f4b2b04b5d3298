"""Tokens equal the original's, but where the Rust tokenizer cannot."""

import json
import unicodedata

import pytest
from conftest import GOLDENS

from bertcli.data.tokenization import differs_from_original, load_tokenizer

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
