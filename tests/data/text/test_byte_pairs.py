"""Byte pairs are GPT-2's, as fairseq encodes them, literal special tokens included; what is saved opens again."""

import json
from pathlib import Path

import pytest
from conftest import GOLDENS

from bertcli.data.packing.text_features import encode_masks
from bertcli.data.text.tokenization import Subwords, load_tokenizer
from bertcli.families.roberta import ROBERTA

FOLDER = GOLDENS / "roberta" / "bpe"


@pytest.fixture
def tokenizer() -> Subwords:
    pieces = json.loads((FOLDER / "encoder.json").read_text())
    merges = [tuple(line.split()) for line in (FOLDER / "vocab.bpe").read_text(encoding="utf-8").splitlines()[1:]]
    first = [*ROBERTA.special_tokens, *sorted(pieces, key=pieces.get), *ROBERTA.last_tokens]
    return ROBERTA.new_tokenizer("golden", vocab={piece: number for number, piece in enumerate(first)}, merges=merges)


def test_texts_have_fairseqs_ids(tokenizer: Subwords) -> None:
    cases = json.loads((FOLDER / "cases.json").read_text())
    shift = len(ROBERTA.special_tokens)
    assert tokenizer.encode_ids([case["text"] for case in cases]) == [
        [i + shift for i in case["ids"]] for case in cases
    ]
    for case in cases:
        begins = [not tokenizer.continues_word[number + shift] for number in case["ids"]]
        assert begins == case["word_begin"]


def test_a_saved_tokenizer_opens_with_the_same_ids_layout_and_digest(tokenizer: Subwords, tmp_path: Path) -> None:
    tokenizer.save(tmp_path, 77)
    again = load_tokenizer(tmp_path)
    assert (again.digest, again.layout, again.algorithm) == (tokenizer.digest, tokenizer.layout, "byte-bpe")
    assert again.layout.tokens == ((0,), (2, 2), (2,))
    assert [again.special(name) for name in ("cls", "pad", "sep", "unk", "mask")] == [0, 1, 2, 3, tokenizer.size - 1]


def test_a_mask_takes_the_space_before_it(tokenizer: Subwords) -> None:
    ids, places = encode_masks("the cat [MASK] on [MASK]", tokenizer)
    mask, first, last = (
        tokenizer.special("mask"),
        tokenizer.encode_ids(["the cat"])[0],
        tokenizer.encode_ids([" on"])[0],
    )
    assert ids == [0, *first, mask, *last, mask, 2]
    assert [ids[place] for place in places] == [mask, mask]
    assert [tokenizer.shown(token) for token in ("Ġthe", "the")] == ["the", "the"]
