"""A vocabulary is reproducible, both libraries read it, and it says what it covers."""

import lzma
import re
from collections import Counter
from itertools import permutations
from pathlib import Path
from zlib import crc32

import pytest
from conftest import write_corpus
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from bertcli.config.recipes import recipes_folder
from bertcli.data.text.tokenization import SPECIAL_TOKENS, load_tokenizer
from bertcli.errors import UserError
from bertcli.lifecycle import build_vocab as vocabulary
from bertcli.lifecycle.build_vocab import build_vocab

NOVEL = "arthur-conan-doyle_the-adventures-of-sherlock-holmes.txt.xz"


@pytest.mark.parametrize("most_held_out", [3, 1000])
def test_the_same_text_gives_the_same_file_in_any_order(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, most_held_out: int
) -> None:
    monkeypatch.setattr(vocabulary, "MAX_HELD_OUT", most_held_out)
    names = [str(write_corpus(Path(f"{name}.txt"), documents=60, seed=seed)) for seed, name in enumerate("abcd")]
    files, covered = set(), set()
    for order in [*permutations(names), ["*.txt"], ["."]]:
        made = build_vocab(list(order), vocab_size=110, min_frequency=1)
        files.add(Path("vocab/vocab.txt").read_bytes())
        covered.add(made.coverage)
    assert len(files) == len(covered) == 1
    assert 0 < made.coverage.lines <= most_held_out


# Few letters and few words: most counts are equal, so that it is ties that decide.
@given(
    st.lists(st.lists(st.text("abç", min_size=1, max_size=6), min_size=1, max_size=4), min_size=2, max_size=4),
    st.data(),
)
@settings(max_examples=25)
def test_ties_are_broken_the_same_way_in_any_order(
    tmp_path_factory: pytest.TempPathFactory, texts: list[list[str]], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("ties")
    for number, words in enumerate(texts):
        (folder / f"{number}.txt").write_text("\n".join(words), encoding="utf-8")
    files = sorted(map(str, folder.glob("*.txt")))
    for out, order in (("one", files), ("two", data.draw(st.permutations(files)))):
        build_vocab(order, vocab_size=20, min_frequency=1, cased=True, out=str(folder / out))
    assert (folder / "one" / "vocab.txt").read_bytes() == (folder / "two" / "vocab.txt").read_bytes()


def test_special_tokens_come_first_and_the_size_is_as_asked(workspace: Path) -> None:
    write_corpus(Path("a.txt"))
    made = build_vocab("a.txt", vocab_size=80)
    tokens = Path("vocab/vocab.txt").read_text().splitlines()
    assert tuple(tokens[:5]) == SPECIAL_TOKENS
    assert made.vocab_size == len(tokens) == len(set(tokens)) == 80


def test_unused_tokens_follow_the_special_ones_and_count_in_the_size(workspace: Path) -> None:
    write_corpus(Path("a.txt"))
    build_vocab("a.txt", vocab_size=80, out="without")
    build_vocab("a.txt", vocab_size=87, out="with", unused_tokens=7)
    without, tokens = (Path(out, "vocab.txt").read_text().splitlines() for out in ("without", "with"))
    assert tokens == [*SPECIAL_TOKENS, *(f"[unused{i}]" for i in range(7)), *without[5:]]
    assert AutoTokenizer.from_pretrained("with").convert_tokens_to_ids("[unused6]") == 11
    with pytest.raises(UserError, match="too small"):
        build_vocab("a.txt", vocab_size=80, unused_tokens=75)


def test_held_out_lines_teach_nothing_and_are_what_coverage_is_measured_on(workspace: Path) -> None:
    ideographs = [chr(0x4E00 + number) for number in range(1500)]
    Path("a.txt").write_text("".join(f"{ideograph} a\n\n" for ideograph in ideographs), encoding="utf-8")
    made = build_vocab("a.txt", vocab_size=2000, limit_alphabet=2000, min_frequency=1)
    held_out = [ideograph for ideograph in ideographs if ideograph not in load_tokenizer("vocab").vocab]
    assert made.lines == 1500
    assert made.coverage.lines == len(held_out) == pytest.approx(15, abs=12)
    assert made.coverage.words == 2 * len(held_out)
    assert made.coverage.unknown_percent == 50
    assert made.coverage.tokens_per_word == 1


def test_a_short_text_is_learnt_whole(workspace: Path) -> None:
    unlucky = next(f"word{number}" for number in range(1000) if crc32(f"word{number}".encode()) < 2**32 // 100)
    Path("a.txt").write_text(f"{unlucky}\n" * 200)
    made = build_vocab("a.txt", vocab_size=60)
    assert made.coverage is None
    assert unlucky in load_tokenizer("vocab").vocab


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


HINDI = "लड़की दिल्ली में रहती है और किताबें पढ़ती है"


@pytest.mark.parametrize(("family", "keeps"), [("albert", True), ("deberta-v3", True), ("bert", False)])
def test_vowel_signs_are_kept_or_it_is_said_that_they_are_not(
    tmp_path: Path, family: str, keeps: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", logger="bertcli"):
        build_vocab([in_hindi(tmp_path)], family=family, vocab_size=200, out=str(tmp_path / "vocab"))
    assert ("्" in "".join(AutoTokenizer.from_pretrained(tmp_path / "vocab").tokenize("दिल्ली"))) == keeps
    assert ("drops the vowel signs" in caplog.text) == (not keeps)
    tokenizer = load_tokenizer(tmp_path / "vocab")
    unknown = tokenizer.vocab.get("<unk>", tokenizer.vocab.get("[UNK]"))
    assert unknown not in tokenizer.encode_ids([HINDI])[0]


def test_emoji_have_no_vowel_signs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "text.txt").write_text("I \u2764\ufe0f it \u2600\ufe0f\n" * 50, encoding="utf-8")
    with caplog.at_level("INFO", logger="bertcli"):
        build_vocab([str(tmp_path / "text.txt")], vocab_size=200, out=str(tmp_path / "vocab"))
    assert "vowel signs" not in caplog.text


def test_a_family_whose_tokenizer_drops_vowel_signs_is_refused_for_a_script_that_has_them(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="drops the vowel signs") as refused:
        build_vocab([in_hindi(tmp_path)], family="xlnet", vocab_size=200, out=str(tmp_path / "vocab"))
    assert "--family deberta-v3" in refused.value.hint


def in_hindi(folder: Path) -> str:
    """A text in Devanagari."""
    path = folder / "text.txt"
    path.write_text("\n".join(f"{HINDI} {'अआकखगघ'[number % 6]}" for number in range(60)), encoding="utf-8")
    return str(path)


def test_sentence_pieces_are_the_same_in_any_order_of_the_files(tmp_path: Path) -> None:
    files = [str(write_corpus(tmp_path / f"{seed}.txt", seed=seed)) for seed in range(3)]
    for number, order in enumerate((files, files[::-1])):
        build_vocab(order, family="xlnet", vocab_size=80, out=str(tmp_path / f"vocab{number}"))
    first, second = ((tmp_path / f"vocab{number}" / "tokenizer.json").read_bytes() for number in range(2))
    assert first == second


def test_frequent_words_are_sentence_pieces_whole_and_none_has_digits_beside_marks(tmp_path: Path) -> None:
    novel = lzma.decompress((recipes_folder() / "demo" / "books" / NOVEL).read_bytes()).decode()[:400_000]
    (tmp_path / "novel.txt").write_text(novel + "in 1990, 3;4 or 5! at 10:30.\n" * 40)
    build_vocab([str(tmp_path / "novel.txt")], family="albert", vocab_size=3000, out=str(tmp_path / "vocab"))
    pieces = load_tokenizer(tmp_path / "vocab").vocab
    words = Counter(re.findall(r"[a-z]+", novel.lower())).most_common(100)
    assert sum(f"▁{word}" in pieces for word, _ in words) >= 95
    assert [piece for piece in pieces if re.search(r"\d[^\w▁]|[^\w▁]\d", piece)] == []
