"""A vocabulary is reproducible, and both libraries read it."""

from pathlib import Path

import pytest
from conftest import write_corpus
from transformers import AutoTokenizer

from bertcli.data.tokenization import SPECIAL_TOKENS, load_tokenizer
from bertcli.errors import UserError
from bertcli.vocabulary import build_vocab


def test_the_same_text_gives_the_same_file_in_any_order(workspace: Path) -> None:
    write_corpus(Path("a.txt"), seed=1)
    write_corpus(Path("b.txt"), seed=2)
    for out, files in (("one", ["a.txt", "b.txt"]), ("two", ["b.txt", "a.txt"]), ("three", ["*.txt"])):
        build_vocab(files, vocab_size=150, out=out)
    assert (
        Path("one/vocab.txt").read_bytes() == Path("two/vocab.txt").read_bytes() == Path("three/vocab.txt").read_bytes()
    )


def test_special_tokens_come_first_and_the_size_is_as_asked(workspace: Path) -> None:
    write_corpus(Path("a.txt"))
    made = build_vocab("a.txt", vocab_size=80)
    tokens = Path("vocab/vocab.txt").read_text().splitlines()
    assert tuple(tokens[:5]) == SPECIAL_TOKENS
    assert made.vocab_size == len(tokens) == len(set(tokens)) == 80


def test_transformers_reads_the_vocabulary_and_agrees(workspace: Path) -> None:
    write_corpus(Path("a.txt"))
    build_vocab("a.txt", vocab_size=100)
    theirs, ours = AutoTokenizer.from_pretrained("vocab"), load_tokenizer("vocab")
    text = "The cat sat happily, under a TREE."
    assert theirs(text, add_special_tokens=False)["input_ids"] == ours.encode_ids([text])[0]


def test_cased_keeps_case_and_says_so_to_whoever_loads_it(workspace: Path) -> None:
    Path("a.txt").write_text("Ada und Ägir\n" * 5, encoding="utf-8")
    build_vocab("a.txt", vocab_size=60, cased=True)
    assert load_tokenizer("vocab").cased
    assert "A" in Path("vocab/vocab.txt").read_text().splitlines()
    assert "Ä" in Path("vocab/vocab.txt").read_text().splitlines()


def test_a_size_below_the_alphabet_is_refused(workspace: Path) -> None:
    write_corpus(Path("a.txt"))
    with pytest.raises(UserError, match="too small"):
        build_vocab("a.txt", vocab_size=20)
    assert not Path("vocab").exists()


@pytest.mark.parametrize("cased", [False, True])
def test_transformers_puts_special_tokens_and_types_as_bert_has_them(workspace: Path, cased: bool) -> None:
    write_corpus(Path("a.txt"))
    build_vocab("a.txt", vocab_size=80, cased=cased)
    tokenizer = AutoTokenizer.from_pretrained("vocab")
    assert type(tokenizer).__name__ == "BertTokenizer"
    pair = tokenizer("The cat", "the dog")
    tokens = tokenizer.convert_ids_to_tokens(pair["input_ids"])
    assert (tokens[0], tokens[-1], tokens.count("[SEP]")) == ("[CLS]", "[SEP]", 2)
    assert pair["token_type_ids"] == [0] * (tokens.index("[SEP]") + 1) + [1] * (len(tokens) - tokens.index("[SEP]") - 1)
    assert tokenizer.mask_token_id == 4
    assert ("the" in tokens) is True
    assert (tokens[1] == "the") is not cased
    assert tokenizer.decode(pair["input_ids"], skip_special_tokens=True).endswith("dog")
