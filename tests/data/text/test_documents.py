"""Text files are cut into lines and documents as the original does."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertcli.data.text.documents import find_text_files, read_documents, sentences_of
from bertcli.data.text.tokenization import WordPiece
from bertcli.errors import UserError


def test_a_files_end_ends_a_document_unless_files_are_joined(workspace: Path) -> None:
    Path("a.txt").write_text("one\ntwo\n\nthree", encoding="utf-8")
    Path("b.txt").write_text("four\n\n\nfive\n", encoding="utf-8")
    files = [Path("a.txt"), Path("b.txt")]
    assert list(read_documents(files)) == [["one", "two"], ["three"], ["four"], ["five"]]
    assert list(read_documents(files, join_files=True)) == [["one", "two"], ["three", "four"], ["five"]]


def test_a_file_that_is_named_twice_is_read_once_and_a_table_is_no_text(
    workspace: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Path("a.txt").write_text("one\n", encoding="utf-8")
    Path("b.txt").symlink_to("a.txt")
    with caplog.at_level("INFO", logger="bertcli"):
        assert len(find_text_files(["a.txt", "*.txt", f"{workspace}/a.txt"])) == 1
    assert "3 of 4 files were named before, and are read once" in caplog.text
    for name in ("a.csv", "a.TSV", "a.jsonl", "a.jsonl.gz", "a.json"):
        Path(name).write_text('{"text": "one"}\n', encoding="utf-8")
        with pytest.raises(UserError, match=f"`{name}` is a table, not plain text"):
            find_text_files([name])


def test_only_a_newline_ends_a_line_and_odd_characters_are_the_originals(
    workspace: Path, google_tokenizer: WordPiece
) -> None:
    text = "one\rtwo\x0bthree\u2028four\x85five\n\u200b\n \t\u00a0\nnull\x00 character [MASK]\r\n"
    Path("odd.txt").write_bytes(text.encode())
    documents = list(read_documents([Path("odd.txt")]))
    assert [len(lines) for lines in documents] == [2, 1]  # U+200B is no blank line, a no-break space is
    tokens = [encoding.tokens for encoding in google_tokenizer.encode([*documents[0], *documents[1]])]
    # A carriage return and U+2028 separate words; U+000B and U+0085 are control characters, and vanish.
    assert tokens[0] == google_tokenizer.encode(["one twothree fourfive"])[0].tokens
    assert tokens[1] == []
    assert tokens[2] == ["null", "character", "[", "mask", "]"]


@pytest.mark.parametrize(
    "sentences",
    [
        [
            "He said: “I am tired.”",
            "Mr. Smith of the U.S. Army left, e.g. home...",
            "No way!",
            "(Yes.)",
            "It is 1.5 miles.",
        ],
        ["今日は。", "いい天気です！", "「はい。」", "そう"],
        ["Все счастливы?", "Да."],
    ],
)
def test_a_paragraph_is_cut_into_its_sentences(sentences: list[str], workspace: Path) -> None:
    space = "" if "。" in sentences[0] else " "
    Path("a.txt").write_text(space.join(sentences) + "\n\nNext\n", encoding="utf-8")
    assert list(read_documents([Path("a.txt")], split_sentences=True)) == [sentences, ["Next"]]


@given(st.text(st.sampled_from('ab A.。?!…”」" ')))
def test_sentences_hold_all_characters_of_a_line(line: str) -> None:
    assert "".join("".join(sentences_of(line)).split()) == "".join(line.split())
