"""Text files are cut into lines and documents as the original does; a row of a table is a document."""

import csv
import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertcli.data.text.documents import find_text_files, read_all_lines, read_documents, sentences_of
from bertcli.data.text.tokenization import WordPiece
from bertcli.errors import UserError


def write_table(path: Path, columns: dict[str, list[str]]) -> Path:
    rows = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    if path.suffix == ".parquet":
        pq.write_table(pa.table(columns), path)
    elif ".json" in path.name:
        lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
        path.write_bytes(gzip.compress(lines) if path.suffix == ".gz" else lines)
    else:
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, [*columns], delimiter="\t" if path.suffix == ".TSV" else ",")
            writer.writeheader()
            writer.writerows(rows)
    return path


def test_a_files_end_ends_a_document_unless_files_are_joined(workspace: Path) -> None:
    Path("a.txt").write_text("one\ntwo\n\nthree", encoding="utf-8")
    Path("b.txt").write_text("four\n\n\nfive\n", encoding="utf-8")
    files = [Path("a.txt"), Path("b.txt")]
    assert list(read_documents(files)) == [["one", "two"], ["three"], ["four"], ["five"]]
    assert list(read_documents(files, join_files=True)) == [["one", "two"], ["three", "four"], ["five"]]


def test_a_file_that_is_named_twice_is_read_once(workspace: Path, caplog: pytest.LogCaptureFixture) -> None:
    Path("a.txt").write_text("one\n", encoding="utf-8")
    Path("b.txt").symlink_to("a.txt")
    with caplog.at_level("INFO", logger="bertcli"):
        assert len(find_text_files(["a.txt", "*.txt", f"{workspace}/a.txt"])) == 1
    assert "3 of 4 files were named before, and are read once" in caplog.text


REVIEWS = ["one\n\n two \nthree", "", "four. Five."]


@pytest.mark.parametrize("form", [".csv", ".TSV", ".jsonl", ".jsonl.gz", ".json", ".parquet"])
def test_each_row_of_a_table_is_a_document(form: str, workspace: Path, said: pytest.LogCaptureFixture) -> None:
    file = write_table(Path(f"a{form}"), {"id": ["t1", "t2", "t3"], "review": REVIEWS})
    files = find_text_files([str(file)])
    documents = [["one", "two", "three"], ["four. Five."]]
    for options in ({}, {"join_files": True}, {"blanks_separate": False}):
        assert list(read_documents(files, **options)) == documents
    assert list(read_documents(files, split_sentences=True))[1] == ["four.", "Five."]
    assert list(read_documents(files, text_column="id")) == [["t1"], ["t2"], ["t3"]]
    assert list(read_all_lines(files)) == ["one", "two", "three", "four. Five."]
    assert f"{file}: text = `review`; each row is a document" in said.messages
    assert said.messages.count(f"{file}: 1 of 3 rows have no text and are left out") == 4


def test_the_text_column_is_named_or_the_longest_and_said_once_for_all_tables(
    workspace: Path, said: pytest.LogCaptureFixture
) -> None:
    for name in ("a.csv", "b.parquet"):
        write_table(Path(name), {"id": ["t1"], "story": ["The sun is low."]})
    Path("c.txt").write_text("one\n", encoding="utf-8")
    files = find_text_files(["a.csv", "b.parquet", "c.txt"])
    assert said.messages == ["a.csv and 1 other table: text = `story`; each row is a document"]
    assert list(read_documents(files)) == [["The sun is low."], ["The sun is low."], ["one"]]
    Path("d.csv").write_text("id;story\nt1;one\n", encoding="utf-8")
    assert list(read_documents(find_text_files(["d.csv"]))) == [["one"]]
    assert said.messages.count("d.csv: its columns are separated by `;`") == 1
    with pytest.raises(UserError, match=r"column of a.csv: `storey`") as caught:
        find_text_files(["a.csv"], "storey")
    assert "`story`" in caught.value.hint
    find_text_files(["c.txt"], "story")
    assert said.messages[-1] == "--text-column has no effect: no file is a table"


def test_a_table_whose_cell_is_no_text_is_refused(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("a.jsonl").write_text('{"text": "one"}\n{"text": ["two"]}\n', encoding="utf-8")
    with pytest.raises(UserError, match=r"`a.jsonl` line 2 has a list where a text should be"):
        list(read_documents([Path("a.jsonl")]))
    monkeypatch.setattr("bertcli.data.text.documents.LONGEST_LINE", 2)
    with pytest.raises(UserError, match=r"`a.jsonl` line 1 has a line of more than"):
        list(read_documents([Path("a.jsonl")]))


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
