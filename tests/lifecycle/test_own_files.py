"""The user's own files: read in every form, split, and what is odd in them said or named with its line."""

import csv
import gzip
import io
import json
import lzma
import pickle
import random
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import partial
from operator import itemgetter
from pathlib import Path

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from conftest import GOLDENS, WORDS
from hypothesis import given
from hypothesis import strategies as st

from bertcli.data.labelled.own_splits import run_name, stratified_split
from bertcli.data.text.documents import read_lines
from bertcli.data.text.tables import are_numbers, read_table
from bertcli.errors import UserError
from bertcli.kinds.types import OwnData
from bertcli.lifecycle import own_files
from bertcli.lifecycle.evaluate import evaluate
from bertcli.lifecycle.finetune import finetune
from bertcli.lifecycle.make_pretraining_data import make_pretraining_data
from bertcli.lifecycle.own_files import Columns
from bertcli.lifecycle.predict import predict
from bertcli.lifecycle.similar import similar
from bertcli.lifecycle.sources import Source
from tests.cli.test_main import run as run_command

ROWS = [(f"the {word}, {number}", "ab"[number % 2]) for number, word in enumerate(WORDS)]
CSV = "text,label\n" + "".join(f'"{text}",{label}\n' for text, label in ROWS)
gzip_compress = partial(gzip.compress, mtime=0)  # a case is named by its bytes: they must not have the time in them
COMPRESS = {"": bytes, ".gz": gzip_compress, ".xz": lzma.compress, ".zst": zstandard.compress}
NONE: dict[str, str | None] = {}


def own_task(
    name: str, columns: Columns, kind: str | None, seed: int = 0, scored: str = "", learnt: bool = False
) -> OwnData:
    """A task with the splits that are scored, or that are trained on and chosen by."""
    task, parts = own_files.own_task(name, columns, kind, seed, scored, learnt)
    if scored:
        return task, parts
    source = Source(task, own=parts, seed=seed).for_training(trains_on_all=False)
    source.read_to_train(limit=None)
    return task, source.own or {}


def write(name: str, content: str | bytes) -> str:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return name


def labelled(*labels: object) -> str:
    return "text,stars\n" + "".join(f"the {number},{label}\n" for number, label in enumerate(labels))


# --- Languages


def test_texts_of_a_language_that_the_vocabulary_lacks_are_said_by_each_command(
    home: Path, workspace: Path, said: pytest.LogCaptureFixture
) -> None:
    start = str(home / "runs/pretrain-tiny")
    options = {"from_": start, "epochs": 1, "baseline": False, "max_seq_length": 16}
    rows = [(f"это {word} the", "ab"[number % 2]) for number, word in enumerate(["фильм", "книга"] * 20)]
    write("a.csv", "text,label\n" + "".join(f"{text},{label}\n" for text, label in rows))
    write("a.txt", "\n".join(text for text, _ in rows))
    write("b.csv", "text,label\n" + "".join(f"the {word},{'ab'[len(word) % 2]}\n" for word in WORDS * 2))
    commands: list[Callable[[], object]] = [
        lambda: finetune("a.csv", **options),
        lambda: predict(file="a.csv", output="p.csv"),
        lambda: predict(file="a.csv", features="f.npz", model=start),
        lambda: evaluate("a.csv"),
        lambda: similar(file="a.csv", text=["это фильм"], model=start),
        lambda: make_pretraining_data("a.txt", tokenizer=start, max_seq_length=32),
    ]
    for command in commands:
        said.clear()
        command()
        assert re.search(r"\d\d % of the tokens are \[UNK\], unknown to the vocabulary", said.text)
        is_first = command is commands[0]
        assert ("give --from a model of the language" in said.text) == is_first
    said.clear()
    finetune("b.csv", **options)
    assert "[UNK]" not in said.text
    rows = ["the cat sat on the mat".replace("mat", "mat 🙂" if number % 2 else "mat") for number in range(20)]
    write("emoji.csv", "text,label\n" + "".join(f"{text},{'ab'[number % 2]}\n" for number, text in enumerate(rows)))
    finetune("emoji.csv", **options)
    assert "% of the tokens are [UNK]" in said.text
    assert "give --from a model of the language" not in said.text


# --- Forms


@pytest.mark.parametrize("compression", COMPRESS)
@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "json", "parquet"])
def test_every_form_gives_the_same_examples(workspace: Path, ending: str, compression: str) -> None:
    texts, labels = [text for text, _ in ROWS], [label for _, label in ROWS]
    buffer = io.BytesIO()
    pq.write_table(pa.table({"text": texts, "label": labels}), buffer)
    content = {
        "csv": CSV.replace("\n", "\r\n").encode("utf-8-sig"),
        "tsv": "".join(f"{text}\t{label}\n" for text, label in [("text", "label"), *ROWS]).encode(),
        "parquet": buffer.getvalue(),
    }.get(ending, "\n".join(json.dumps({"text": text, "label": label}) for text, label in ROWS).encode())
    file = write(f"mine.{ending}{compression}", COMPRESS[compression](content))
    task, parts = own_task(file, NONE, None, scored="dev")
    assert (task.kind, task.labels) == ("classify", ("a", "b"))
    assert (parts["dev"].texts, parts["dev"].labels) == (texts, labels)


TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1), st.sampled_from([(",", "\n"), (";", "\r\n"), ("\t", "\n")]))
def test_what_is_written_as_csv_is_read_with_its_lines(rows: list[tuple[str, str]], form: tuple[str, str]) -> None:
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, delimiter=form[0], lineterminator=form[1], quoting=csv.QUOTE_ALL)
    writer.writerow(["one", "two"])
    lines = []
    for row in rows:
        lines.append(buffer.getvalue().count("\n") + 1)
        writer.writerow(row)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mine.csv"
        path.write_bytes(buffer.getvalue().encode())
        read = read_table(path)
    assert (read.column("one"), read.column("two")) == ([row[0] for row in rows], [row[1] for row in rows])
    assert read.numbers == lines


def test_a_tsv_with_or_without_quoting_keeps_all_of_its_rows(workspace: Path, said: pytest.LogCaptureFixture) -> None:
    plain = read_table(Path(write("plain.tsv", 'text\tlabel\n"open\ta\nand closed"\tb\n"no" he said\ta\n')))
    assert plain.column("text") == ['"open', 'and closed"', '"no" he said']
    assert "plain.tsv: quotation marks are part of the text" in said.text
    quoted = read_table(Path(write("quoted.tsv", 'text\tlabel\n"two\nlines"\ta\n"say ""no"""\tb\n')))
    assert quoted.column("text") == ["two\nlines", 'say "no"']
    assert quoted.numbers == [2, 4]


def test_columns_may_stand_apart_otherwise_than_the_name_says(workspace: Path, said: pytest.LogCaptureFixture) -> None:
    assert read_table(Path(write("a.csv", "text;label\na, b;x\n"))).column("text") == ["a, b"]
    assert "a.csv: its columns are separated by `;`" in said.text
    assert read_table(Path(write("b.csv", "text\tlabel\na, b\tx\n"))).column("text") == ["a, b"]
    assert read_table(Path(write("c.csv", 'text, label\ra, "b, c"\r'))).column("label") == ["b, c"]


# --- Columns, kind and labels


def test_columns_and_kind_of_an_own_file_are_inferred(workspace: Path, said: pytest.LogCaptureFixture) -> None:
    write("a.csv", 'id,comment,stars\n1,"good, really",5\n2,bad,1\n3,"two\nlines",5\n4,x,1\n')
    task, _ = own_task("a.csv", NONE, None)
    assert task.files.columns == {"text": "comment", "label": "stars"}
    assert (task.kind, task.labels) == ("classify", ("1", "5"))
    assert (
        "a.csv: train 4 rows; text = `comment`, label = `stars`; kind: classify, 2 labels: 1, 5 (2 rows each), "
        in said.text
    )
    given = {"text": "id", "label": "comment", "text_pair": "stars"}
    assert own_task("a.csv", given, None, scored="dev")[0].files.columns == given
    assert "a.csv: every `id` is a number; if it is not the text, give --text COLUMN" in said.text
    write("b.csv", "id,question,sentence,is_so\n1,who?,he,yes\n2,when?,now,no\n3,why?,so,no\n4,you?,me,yes\n")
    pair = own_task("b.csv", {"label": "is_so"}, None)[0].files.columns
    assert pair == {"text": "question", "text_pair": "sentence", "label": "is_so"}


@pytest.mark.parametrize(
    ("column", "labels", "kind", "why"),
    [
        ("stars", [0, 1], "classify", "whole numbers (--kind regress: they are values)"),
        ("stars", [1, 2, 3, 4, 5], "classify", "whole numbers"),
        ("stars", ["1.0", "2.0"], "classify", "2 labels: 1, 2 (2 rows each),"),
        (
            "stars",
            [0.5, 1, 1.5],
            "regress",
            "3 different numbers, some with fractions (--kind classify: they are classes",
        ),
        ("stars", range(21), "regress", "21 different numbers, more than 20 (--kind classify: they are classes"),
        (
            "label",
            range(30),
            "classify",
            "30 labels: 0, 1, 2, 3, 4 and 25 more (2 rows each), as they are whole numbers",
        ),
        ("stars", ["a", 1], "classify", "2 labels: 1, a (2 rows each)\n"),
        ("stars", ['"a, b"', "c"], "classify", "2 labels: `a, b`, c (2 rows each)\n"),
        (
            "stars",
            ["n.d.", 1, 2.5],
            "classify",
            "because `n.d.` is not a number; 4 others are (if they are values, leave such cells empty)",
        ),
        ("stars", ['"0,5"', '"1,0"'], "classify", "as the decimal separator must be a point, not a comma"),
        ("price", ['"75,600"', '"1,100"', "900"], "classify", "as `75,600` is no number here, and `75600` is"),
        ("price", ["€20.50", "$1 000", "7"], "classify", "as `€20.50` is no number here, and `20.50` is"),
        (
            "tags",
            ["food", "wifi", "food|wifi"],
            "classify",
            "such as `food|wifi` (--kind multilabel: several labels in a row)",
        ),
        (
            "tags",
            ["food", "wifi", '"food, wifi"'],
            "classify",
            "such as `food, wifi` (--kind multilabel: several labels",
        ),
        ("tags", ["food", '"food, wifi"'], "classify", "2 labels: food, `food, wifi` (2 rows each)\n"),
        ("stars", ["True", "false", "FALSE", "true"], "classify", "2 labels: false, true (4 rows each)\n"),
    ],
)
def test_numbers_are_names_or_values_and_it_is_said_why(
    workspace: Path, said: pytest.LogCaptureFixture, column: str, labels: list[object], kind: str, why: str
) -> None:
    write("a.csv", labelled(*labels, *labels).replace("stars", column))
    assert own_task("a.csv", NONE, None)[0].kind == kind
    assert why in said.text
    other = {"classify": "regress", "regress": "classify"}[kind]
    if other == "classify" or are_numbers(map(str, labels)):
        assert own_task("a.csv", NONE, other)[0].kind == other
        return
    with pytest.raises(UserError, match=r"`a.csv` line \d has the label .*, not a number"):
        own_task("a.csv", NONE, other)


def test_many_numbers_beside_a_few_other_labels_are_not_taken_for_names(
    workspace: Path, said: pytest.LogCaptureFixture
) -> None:
    numbers = [number / 8 for number in range(40)]
    write("a.csv", labelled(*numbers, *numbers, "-", "inf"))
    with pytest.raises(UserError, match="2 of 82 labels are not numbers, such as `-`") as caught:
        own_task("a.csv", NONE, None)
    assert "--kind classify" in caught.value.hint
    assert own_task("a.csv", NONE, "classify")[0].kind == "classify"
    write("a.csv", labelled(*numbers, *numbers, "", ""))
    assert own_task("a.csv", NONE, None)[0].kind == "regress"


def test_a_number_and_a_name_that_are_spelled_alike_are_said_to_be_one_label(
    workspace: Path, said: pytest.LogCaptureFixture
) -> None:
    write("a.csv", labelled("1", "1.0", "1.10", "beta", "1", "1.0", "1.10", "beta"))
    assert own_task("a.csv", NONE, None)[0].labels == ("1", "1.10", "beta")
    assert "`1.0` and `1` are taken as one label, `1`" in said.text
    said.clear()
    write("a.csv", labelled("1", "1.0", "2", "2"))
    own_task("a.csv", NONE, None)
    assert "taken as one label" not in said.text


def test_a_file_that_is_given_twice_is_refused(workspace: Path) -> None:
    write("a.csv", CSV)
    with pytest.raises(UserError, match=r"`a.csv` is given twice"):
        own_task("a.csv,a.csv", NONE, None)


def test_many_numbers_with_a_decimal_comma_are_not_taken_for_names(workspace: Path) -> None:
    prices = [f'"{number},5"' for number in range(30)]
    write("a.csv", labelled(*prices, *prices).replace("stars", "price"))
    with pytest.raises(
        UserError, match=r"numbers with a comma, such as `1.,5`, and would be taken for names"
    ) as caught:
        own_task("a.csv", NONE, None)
    assert "--kind classify" in caught.value.hint
    assert own_task("a.csv", NONE, "classify")[0].kind == "classify"


@given(st.permutations(["10", "9", "-1", "nan", "b", "a", "Infinity", "1.5"]))
def test_the_order_of_labels_does_not_depend_on_the_rows(labels: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        name = write(f"{folder}/a.csv", labelled(*labels, *labels))
        assert own_task(name, NONE, None)[0].labels == ("-1", "1.5", "9", "10", "Infinity", "a", "b", "nan")


def test_missing_values_are_counted_and_left_out(workspace: Path, said: pytest.LogCaptureFixture) -> None:
    write("a.csv", 'text,label\n"two\nlines",a\n,b\nx,\n" ",a\n' + CSV.partition("\n")[2])
    _, parts = own_task("a.csv", NONE, None)
    assert sum(map(len, parts.values())) == 1 + len(ROWS)
    assert "a.csv: 2 of 25 rows have no text and are left out; the first is `a.csv` line 4" in said.text
    assert "a.csv: 1 of 25 rows have no label and are left out; the first is `a.csv` line 5" in said.text
    values = [float("nan"), None, *[1.0, 2.0] * 9]
    pq.write_table(pa.table({"text": ["x"] * 19 + [None], "label": values}), "b.parquet")
    assert own_task("b.parquet", NONE, None)[0].labels == ("1", "2")
    assert "b.parquet: 2 of 20 rows have no label and are left out; the first is `b.parquet` row 1" in said.text
    assert "b.parquet: 1 of 20 rows have no text and are left out; the first is `b.parquet` row 20" in said.text
    rows = "".join(f'{{"text": "z", "label": {1.5 + number}}}\n' for number in range(9))
    write("c.jsonl", '{"text": "x", "label": null}\n\n{"text": "y"}\n' + rows)
    assert len(own_task("c.jsonl", NONE, None)[1]["train"]) == 8
    assert "c.jsonl: 2 of 11 rows have no label and are left out; the first is `c.jsonl` line 1" in said.text
    write("d.csv", labelled("NaN", "none", *range(25)))
    assert own_task("d.csv", NONE, None)[0].kind == "regress"
    assert "d.csv: 2 of 27 rows have no label" in said.text
    write("e.csv", labelled("inf", "NaN", *range(15), *range(15)))
    assert own_task("e.csv", NONE, None)[0].kind == "classify"
    assert "e.csv: 1 of 32 rows have no label" in said.text
    write("f.csv", labelled("-", *["entailment", "contradiction"] * 9))
    assert own_task("f.csv", NONE, None)[0].labels == ("contradiction", "entailment")
    assert "f.csv: 1 of 19 rows have no label" in said.text
    assert own_task(write("g.csv", labelled(*"-+-+")), NONE, "classify")[0].labels == ("+", "-")
    write(
        "h.jsonl",
        '{"text": "x", "labels": [null]}\n{"text": "y", "labels": ["a"]}\n{"text": "z", "labels": ["b"]}\n' * 4,
    )
    own_task("h.jsonl", NONE, None)
    assert "h.jsonl: 4 rows without a label, taken as texts that no label fits" in said.text
    write("i.csv", "text,choice_0,choice_1,label\n" + "x,a,b,0\ny,,d,1\n" * 5)
    own_task("i.csv", NONE, None)
    assert "i.csv: 5 of 10 rows have an empty choice" in said.text


def test_lists_and_objects_of_any_kind_are_read(workspace: Path) -> None:
    image = [{"bytes": b"\xff", "path": "a"}] * 20
    pq.write_table(pa.table({"words": ["the cat"] * 20, "is": list("ab") * 10, "image": image}), "a.parquet")
    assert own_task("a.parquet", {"text": "words", "label": "is"}, None)[0].labels == ("a", "b")
    with pytest.raises(UserError, match="are words, is, image"):
        own_task("a.parquet", NONE, None)
    write("b.jsonl", '{"text": "x", "labels": ["a", null]}\n{"text": "y", "labels": [true]}\n' * 5)
    assert own_task("b.jsonl", NONE, None)[0].labels == ("True", "a")


def test_rows_without_words_are_counted_and_left_out(workspace: Path, said: pytest.LogCaptureFixture) -> None:
    write(
        "a.jsonl", '{"tokens": ["x"], "tags": ["B-A"]}\n{"tokens": [], "tags": []}\n{"tokens": ["y"], "tags": ["O"]}\n'
    )
    assert len(own_task("a.jsonl", NONE, None, scored="dev")[1]["dev"]) == 2
    assert "a.jsonl: 1 of 3 rows have no words and are left out" in said.text


def test_answers_that_stand_nowhere_are_no_training_data(workspace: Path) -> None:
    with pytest.raises(UserError, match="No answer stands in its context"):
        finetune(write("a.json", squad(*"abcdefgh", start=0)), from_="scratch", size="tiny")


def test_dates_of_any_year_and_time_zone_do_not_hinder_the_other_columns(workspace: Path) -> None:
    dates, times = (
        pa.array([2_000_000 + 9 * row for row in range(20)], pa.int32()).cast(pa.date32()),
        pa.array(range(20)),
    )
    columns = {
        "text": ["x", "y"] * 10,
        "label": ["a", "b"] * 10,
        "on": dates,
        "at": times.cast(pa.timestamp("us", "Mars/X")),
    }
    pq.write_table(pa.table(columns), "a.parquet")
    assert own_task("a.parquet", NONE, None)[0].labels == ("a", "b")
    assert own_task("a.parquet", {"text": "on", "label": "at"}, None, scored="test")[1]["test"].texts[0] == "7445-10-25"


def test_questions_of_a_dev_set_without_answers_are_counted(workspace: Path, said: pytest.LogCaptureFixture) -> None:
    write("train.json", squad(*"abcdefgh"))
    whole = json.loads(squad(*"ijk"))
    whole["data"][0]["paragraphs"][0]["qas"][0]["answers"] = []
    write("dev.json", json.dumps(whole))
    assert own_task("train.json,dev.json", NONE, None)[0].with_impossible
    assert "1 without an answer" in said.text


def test_a_label_seen_once_is_trained_on(workspace: Path, said: pytest.LogCaptureFixture) -> None:
    _, parts = own_task(write("a.csv", CSV + "one,rare\n"), NONE, None)
    assert "rare" in parts["train"].labels
    assert "rare" not in parts["dev"].labels
    assert "a.csv: labels with one example, used for training only: `rare`" in said.text


# --- Errors


def squad(*ids: str, start: float = 4) -> str:
    """Questions with the same answer."""
    answers = [{"text": "cat", "answer_start": start}]
    questions = [{"id": id_, "question": "Who sat?", "answers": answers} for id_ in ids]
    return json.dumps({"data": [{"paragraphs": [{"context": "The cat sat.", "qas": [q]} for q in questions]}]})


def utf16(text: str) -> bytes:
    return text.encode("utf-16")


@pytest.mark.parametrize(
    ("name", "content", "message", "hint"),
    [
        ("a.csv", 'text,label\n"x\ny",1\n\ny\n', "`a.csv` line 5 has 1 field, the header 2", "quotation marks"),
        ("a.csv", CSV + "x,1,2\n", "line 23 has 3 fields, the header 2", "quotation marks"),
        ("a.csv", 'text,label\n"x\n",1\n"y,1\nz,2\n', "line 4: a quotation mark is never closed", "written twice"),
        ("a.csv", 'text,label\n"He said "no" to us",1\n', "line 2: ',' expected after '\"'", "written twice"),
        ("a.csv", "text,text\nx,1\n", "line 1 has two columns `text`", "its own name"),
        ("a.csv", "", "`a.csv` is empty", "header"),
        ("a.csv", "text,label\n", "has the columns text, label but holds no examples", "examples"),
        ("a.csv", labelled("x", "x"), "has only the label `x`", "--label"),
        ("a.csv", labelled("3.5", "3.5"), "has only the label `3.5`", "--label"),
        ("a.csv", labelled("", ""), "holds no row with a text and a label", "--label"),
        ("a.csv", labelled("x", "y"), "No dev set .* each label occurs once", "dev.csv"),
        ("a.csv", "it is good,pos\nit is bad,neg\n" * 4, "line 1 looks like an example", "text,label"),
        ("a.csv", "a,b,c\n1,2,3\n", "columns of `a.csv` are a, b, c: which is the text", "--text a --label b"),
        (
            "a.csv",
            "id,utterance,feeling\n1,a long text,good\n2,another text,bad\n3,more text,bad\n",
            "which is the text and which the label",
            "such as --text utterance --label feeling$",
        ),
        (
            "a.csv",
            "left,right,result\nit rained,the sun shone,0\na man ate,somebody is eating,1\nit snows,the sun is out,0\n",
            "which is the text and which the label",
            "such as --text right --label result; of pairs --text-pair too$",
        ),
        (
            "a.csv",
            "text,joy,the anger\nfirst text,1,0\nsecond text,0,0\n",
            "which is the text and which the label",
            "such as --text text --label 'joy,the anger'$",
        ),
        (
            "a.csv",
            "text,joy,anger\nfirst text,1.0,\nsecond text,True,FALSE\n",
            "which is the text and which the label",
            "such as --text text --label joy,anger$",
        ),
        ("a.csv", "only\nhello there\nbye now\n", "which is the text and which the label", "Add a column of labels"),
        ("a.csv", b"text,label\nx,\xff\0\1\2\3\4\5\6\n", "line 2 is not text but binary", "text file"),
        ("a.csv", utf16(CSV), "is UTF-16", "iconv -f utf-16 -t utf-8 a.csv > converted.csv"),
        ("a.csv", CSV.encode("utf-16le"), "is UTF-16", "iconv -f utf-16le "),
        ("a.csv", CSV.encode("utf-16be"), "is UTF-16", "iconv -f utf-16be "),
        ("a.csv", "text,label\ncafé,1\n".encode("latin1"), "line 2 is not UTF-8", "iconv -f latin1 "),
        (
            "a.csv",
            "text,label\nMüþteri,1\n".encode("latin1"),
            "reads `Müþteri,1` there .cp1254 if it is Turkish",
            "latin1 ",
        ),
        ("a.csv", "text,label\ncafé,1\n".encode() + b"\xff,1\n", "line 3 .* as other lines are", "iconv -c -f utf-8 "),
        ("a.csv", "text,label\na,2.754\nb,895\nc,1.200\n", "`2.754` beside `895` may have a point", "Write 2754; or"),
        ("a.csv", "text,label\nit is caf\u00e9".encode()[:-1], "is not UTF-8 at its end", "iconv -c -f utf-8 "),
        ("a.csv.gz", gzip_compress(b"text\nit\x92s"), "line 2 is not UTF-8", "Unpack .* iconv -f cp1252 .* a.csv >"),
        ("a.csv.gz", gzip_compress(CSV.encode())[:-9], "`a.csv.gz` cannot be read", "compress it again"),
        (
            "a.csv.gz",
            gzip_compress(CSV.encode())[:10] + b"\xff" * 20,
            "`a.csv.gz` cannot be read: .*block type",
            "compress it again",
        ),
        ("a.csv.zst", b"text", "`a.csv.zst` cannot be read", "compress it again"),
        ("a.csv", gzip_compress(CSV.encode()), "not text but compressed data", ".gz"),
        ("a.csv", b"PAR1", "not text but Parquet", ".parquet"),
        ("a.parquet", b"PAR1", "is not Parquet", "write it again"),
        ("a.xlsx", b"PK\3\4", "not text but an Excel workbook", "CSV"),
        ("a.md", "text", "is not CSV, TSV, JSONL or Parquet", "Rename"),
        ("a.jsonl", '{"text": 1}\n\n{oops\n', "line 3 is not JSON", "one JSON object"),
        ("a.jsonl", '{"text": 1}\n7\n', "line 2 is not an object", '{"text"'),
        ("a.jsonl", '{"text": 1}\n{"text": 2, "text": 3}\n', "line 2 has the key `text` twice", "one value"),
        (
            "a.csv",
            "text,label\nx,\"['a']\"\ny,[b\n",
            r"line 3 has the labels `\[b`, which is not a valid list",
            "--kind classify",
        ),
        ("a.json", '[{"text": "x",\n"label": 1},\n{"text": y}]', "line 3 is not JSON", "one JSON object"),
        ("a.jsonl", '7\n{"text": "x"}\n', "line 1 is not an object", "Write lines"),
        (
            "a b.json",
            '[\n{"text": "x", "label": 1}\n]',
            "one JSON value, not an object",
            r"jq -c '.\[\]' 'a b.json' > 'a b.jsonl'",
        ),
        (
            "a.json",
            '{"rows":\n[{"text": "x", "label": 1}]}',
            "one JSON value, not an object",
            r"'.\"rows\"\[\]' a.json",
        ),
        ("a.json", '[{"text": "x", "label": 1}]', "one JSON value, not an object", "jq -c"),
        ("a.jsonl", '[{"text": "x", "label": 1}]', "one JSON value, not an object", "a.jsonl > a-lines.jsonl"),
        (
            "a.jsonl",
            '{"text": "x", "label": "y"}\n{"text": ["x"], "label": "z"}',
            "line 2 has a list where a text should be",
            "one text",
        ),
        ("a.jsonl", '{"text": {"body": "x"}, "label": "y"}\n', "has an object where a text should be", "one text"),
        (
            "a.jsonl",
            '{"text": "x", "label": {"name": "neg"}}\n',
            "line 1 has an object where a label should be",
            "its name",
        ),
        ("a.csv", "it is good,0.0\nit is bad,1.0\n" * 4, "line 1 looks like an example", "text,label"),
        ("a.csv", "it was a long and a very good day,x\n" + CSV, "line 1 looks like an example", "text,label"),
        (
            "a.jsonl",
            '{"text": "x", "label": ' + "1" * 5000 + "}\n",
            "line 1 is not JSON: too many digits",
            "one JSON object",
        ),
        ("a.jsonl", '{"text": "x", "label": "[{[]: 1}]"}\n' * 9, "which is not a valid list", "Write them like this"),
        ("a.conll", "1\tRome\tB-LOC\n2\tis\tO\n", "Every word of `a.conll` is a number", "cut -f2- a.conll"),
        (
            "a.tsv",
            "word\ttag\nRome\tB-LOC\nis\tO\n\nthe\tO\ncat\tO\n",
            "line 1: the sentence has the tag `tag`",
            "Tags are",
        ),
        ("a.jsonl", '{"text": "x", "label": [1, 0]}\n' * 9, "has lists of 0 and 1 for labels", "a column a label"),
        ("a.jsonl", '{"text": "x", "label": [["y"]]}\n' * 9, "which is not a valid list", "Write them like this"),
        ("a.csv", "o,I am always very hungry,e,a,b\nx,y,z,c,d\n", "which is the text", "a header line"),
        ("a.json", '{\n"text": "x"}', "line 1 is not an object", "Write lines"),
        ("a.csv.bz2", b"BZh9", "not text but compressed by bzip2", "gzip"),
        ("a.json", '{"data": [{"paragraphs": [{"context": ""}]}]}', "not in the form of SQuAD .'qas'", "official"),
        (
            "a.json",
            '{"data": [{"paragraphs": [{"context": 1, "qas": [{"id": 1, "question": "", "answers": []}]}]}]}',
            "not in the form of SQuAD .*int found",
            "official",
        ),
        ("a.json", squad("x", "x"), "two train questions with the id `x`", "its own id"),
        ("a.json", squad("x", "y", start=4.0), "not in the form of SQuAD .*float", "official"),
        ("a.conll", "the O\ncat\n", "line 2 has 1 column, not 2", "blank line"),
        ("a.conll", "the\tO\t\ncat\t\n", "line 2 has 1 column, not 2", "blank line"),
        (
            "a.conll",
            "the O\n\ncat NN\n",
            r"`a.conll` line 3: the sentence has the tag `NN`, which is not of an entity",
            "B-TYPE",
        ),
        ("a.conll", "the O\ncat O\n", "has only the label `O`", "Add examples"),
    ],
)
def test_a_bad_file_is_one_error_with_its_line(
    workspace: Path, name: str, content: str | bytes, message: str, hint: str
) -> None:
    write(name, content)
    with pytest.raises(UserError, match=message) as caught:
        own_task(name, NONE, None)
    assert re.search(hint, caught.value.hint)


def test_choices_count_from_where_those_of_all_splits_do(workspace: Path, said: pytest.LogCaptureFixture) -> None:
    head = "question,choice_1,choice_2,choice_3,label\n"
    write("f/train.csv", head + "".join(f"{number},a,b,c,{number % 3 + 1}\n" for number in range(9)))
    write("f/dev.csv", head + "x,a,b,c,1\ny,a,b,c,2\n")
    assert own_task("f", NONE, "choose", scored="dev")[0].file_labels == ("1", "2", "3")
    own_task("f/train.csv", NONE, "choose", scored="dev")
    assert "f/train.csv: all of it is scored, as dev, although its name says otherwise" in said.text
    with pytest.raises(UserError, match="has the label `3`, which is none of 3 choices"):
        own_task(write("a.csv", head + "x,a,b,c,0\ny,a,b,c,3\n"), NONE, None)


@pytest.mark.parametrize(
    ("task", "option", "message"),
    [
        ("rte", {"kind": "regress"}, "--kind is for your own files, not for rte"),
        ("mnli", {"text_pair": "b"}, "--text-pair is for your own files, not for mnli"),
        ("a.csv", {"data_dir": "."}, "--data-dir is of official files; `a.csv` is your own"),
    ],
)
@pytest.mark.parametrize("command", [finetune, evaluate])
def test_options_of_other_data_are_refused(
    workspace: Path, command: Callable[..., object], task: str, option: dict[str, str], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        command(task, **option)


def test_a_column_of_sets_is_said_not_to_be_read(workspace: Path, said: pytest.LogCaptureFixture) -> None:
    write("marked.csv", "text,label,split\n" + "good day,x,train\nbad day,y,test\n" * 4)
    own_task("marked.csv", NONE, None)
    assert "`split` is not read, so that rows of test and train are one set; write a file of each" in said.text
    assert "such as test.csv and train.csv" in said.text


def test_columns_of_text_that_are_not_read_are_said(workspace: Path, said: pytest.LogCaptureFixture) -> None:
    rows = [f"a red and old cat {number},one dog {number},{number % 7}.5,id{number}\n" for number in range(20)]
    Path("pairs.csv").write_text("a,b,score,name\n" + "".join(rows))
    finetune("pairs.csv", dry_run=True, from_="bert-books")
    assert "pairs.csv: not read: b; as the second text of a pair: --text-pair b" in said.text
    said.clear()
    finetune("pairs.csv", text="a", text_pair="b", dry_run=True, from_="bert-books")
    assert "not read" not in said.text


def test_a_column_is_not_taken_twice(workspace: Path) -> None:
    write("a.csv", "text,body,label\n" + "one,two,a\nthree,four,b\n" * 5)
    columns = own_task("a.csv", {"text_pair": "text"}, None)[0].files.columns
    assert columns == {"text": "body", "text_pair": "text", "label": "label"}
    with pytest.raises(UserError, match="one of them is used twice"):
        own_task("a.csv", {"text": "label", "label": "label"}, None)


def test_a_column_that_is_not_there_is_named_with_the_nearest(workspace: Path) -> None:
    with pytest.raises(UserError, match=r"column of a.csv: `star`") as caught:
        own_task(write("a.csv", labelled(1, 2)), {"label": "star"}, None)
    assert "`stars`" in caught.value.hint


@pytest.mark.parametrize(
    ("content", "message"),
    [(utf16(CSV), "is UTF-16"), (CSV.encode("utf-16be"), "is UTF-16"), (b"PK\3\4\xb6", "an Excel workbook")],
)
def test_lines_of_text_are_not_sought_in_another_form(workspace: Path, content: bytes, message: str) -> None:
    with pytest.raises(UserError, match=message):
        predict(file=write("a.txt", content))
    assert next(read_lines(Path(write("b.txt", b"a\0b\n")))) == "a\0b"


class Trap:
    """What does harm when it is unpickled."""

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (Path("harm"),)


@pytest.mark.parametrize("name", ["a.pkl", "a.csv"])
def test_a_pickle_is_named_and_never_opened(workspace: Path, name: str) -> None:
    write(name, pickle.dumps(Trap()))
    with pytest.raises(UserError, match="not text but a pickle, which may run any code"):
        own_task(name, NONE, None)
    assert not Path("harm").exists()


def test_a_value_that_is_no_number_is_named_with_its_line(at_home: Path, tmp_path: Path) -> None:
    file = write(str(tmp_path / "a.csv"), "text,label\n" + '"x\ny",1\n' * 9 + "z,inf\n")
    with pytest.raises(UserError, match=r"a.csv` line 20 has the label `inf`, not a number"):
        finetune(file, kind="regress", out=str(tmp_path / "run"))


# --- Splits


@given(st.lists(st.sampled_from("aaaaabbcdefgh"), min_size=2), st.integers(0, 5))
def test_a_dev_split_has_of_each_label_its_share_and_leaves_one_of_it(labels: list[str], seed: int) -> None:
    train, dev = stratified_split(labels, len(labels), 0.25, seed)
    assert sorted(train + dev) == list(range(len(labels)))
    assert {labels[row] for row in train} == set(labels)
    assert len(dev) == min(max(1, round(len(labels) / 4)), len(labels) - len(set(labels)))
    assert (train, dev) == stratified_split(labels, len(labels), 0.25, seed)


def test_a_dev_split_has_the_same_share_of_each_label() -> None:
    labels = ["a"] * 80 + ["b"] * 20
    _, dev = stratified_split(labels, 100, 0.1, seed=3)
    assert [labels[row] for row in dev].count("a") == 8
    assert [labels[row] for row in dev].count("b") == 2
    rare = [f"label {row % 40}" for row in range(120)]  # three of each
    assert len({rare[row] for row in stratified_split(rare, 120, 0.1, seed=0)[1]}) == 12


@pytest.mark.parametrize(
    ("name", "splits"),
    [
        ("f/my-train.csv", {"train": 18, "dev": 2}),
        ("f", {"train": 20, "dev": 10, "test": 5}),
        ("f/", {"train": 20, "dev": 10, "test": 5}),
        ("f/*.csv", {"train": 20, "dev": 10, "test": 5}),
        ("f/my-train.csv,f/valid.csv", {"train": 20, "dev": 10}),
        ("f/other.csv,f/valid.csv", {"train": 8, "dev": 10}),
        ("f/my-train.csv, f/test.csv", {"train": 18, "dev": 2, "test": 5}),
        ("g/*", {"train": 36, "dev": 4}),
        ("h", {"train": 27, "dev": 3}),
        ("g/two [1].csv,f/valid.csv", {"train": 20, "dev": 10}),
    ],
)
def test_files_are_split_by_their_names(workspace: Path, name: str, splits: dict[str, int]) -> None:
    sizes = {"f/my-train": 20, "f/valid": 10, "f/test": 5, "f/other": 8, "g/one": 20, "g/two [1]": 20}
    sizes |= {f"h/train-0000{shard}-of-00003": 10 for shard in range(3)}
    for file, size in sizes.items():
        write(f"{file}.csv", labelled(*[number % 2 for number in range(size)]))
    write("f/README.md", "read me")
    task, parts = own_task(name, NONE, None)
    assert {split: len(part) for split, part in parts.items()} == splits
    assert task.labels == ("0", "1")


def test_what_cannot_be_split_is_said(workspace: Path, said: pytest.LogCaptureFixture) -> None:
    write("f/reviews.csv", CSV)
    with pytest.raises(UserError, match=r"`f` has no train, dev or test file: reviews.csv") as caught:
        own_task("f", NONE, None)
    assert "Name them train.csv, dev.csv, test.csv" in caught.value.hint
    write("f/test.csv", CSV)
    with pytest.raises(UserError, match="`f` has no train file, only test"):
        own_task("f", NONE, None)
    assert "f: left out: reviews.csv" in said.text
    with pytest.raises(UserError, match="`f` has no dev file, only test") as caught:
        own_task("f", NONE, None, scored="dev")
    assert "--split test" in caught.value.hint
    write("f/train.csv", CSV)
    write("f/train.jsonl", '{"text": "x", "label": "a"}')
    with pytest.raises(UserError, match=r"Several files are train: f/train.csv, f/train.jsonl"):
        own_task("f", NONE, None)
    Path("f/train.jsonl").unlink()
    write("f/valid.csv", "text,kind\nx,a\n")
    with pytest.raises(UserError, match=r"column of f/valid.csv: `label`"):
        own_task("f", NONE, None)
    with pytest.raises(UserError, match="There is no file `f/nothing"):
        own_task("f/nothing*.csv", NONE, None)


def test_what_train_and_dev_share_and_do_not_share_is_said(workspace: Path, said: pytest.LogCaptureFixture) -> None:
    write("train.csv", CSV)
    write("dev.csv", "\n".join(CSV.splitlines()[:4]) + "\nnew,a\nnewer,c\nnewest,c\n")
    write("test.csv", "text,label\nx,-1\ny,-1\n")
    task, parts = own_task("train.csv,dev.csv,test.csv", NONE, None)
    assert "3 of 6 dev examples are training examples too" in said.text
    assert "dev has labels that are not trained on; they count as errors: `c` (2)" in said.text
    assert "test.csv: without labels" in said.text
    assert task.labels == ("a", "b", "c")
    assert parts["test"].labels is None


def test_labels_that_a_limit_leaves_out_of_the_training_set_are_said(
    workspace: Path, said: pytest.LogCaptureFixture
) -> None:
    write("train.csv", CSV + "rare,c\n")
    write("dev.csv", "text,label\nnew,a\nnewer,c\nnewest,c\n")
    task, parts = own_files.own_task("train.csv,dev.csv", NONE, None)
    source = Source(task, own=parts)
    source.read_to_train(limit=None)
    assert "not trained on" not in said.text
    source.read_to_train(limit=5)
    assert "dev has labels that are not trained on; they count as errors: `c` (2)" in said.text


@pytest.mark.parametrize(
    ("name", "run"),
    [
        ("a/reviews.csv.gz", "reviews"),
        ("a", "a"),
        ("a/", "a"),
        ("a/*.csv", "a"),
        ("x.csv,y.csv", "x"),
        ("a/?.csv", "a"),
        (".hidden.csv", "hidden"),
    ],
)
def test_a_run_is_called_after_its_data(workspace: Path, name: str, run: str) -> None:
    Path("a").mkdir()
    assert run_name(name) == run


# --- From files to scores


def test_a_folder_is_learnt_and_its_test_split_scored(
    at_home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(0)
    words = {"up": "happily green garden", "down": "slowly under mat"}
    for split, count in {"train": 60, "dev": 20, "test": 10}.items():
        labels = [draw.choice(["up", "down"]) for _ in range(count)]
        rows = "".join(f"{number},{words[label]},{label}\n" for number, label in enumerate(labels))
        write(str(tmp_path / f"{split}.csv"), f"id,body,way\n{rows}" + "x,cat,sideways\n" * (split == "dev"))
    files = [str(tmp_path / "train.csv"), str(tmp_path / "dev.csv")]
    options = [
        "--text",
        "body",
        "--label",
        "way",
        "--epochs",
        "8",
        "--batch-size",
        "8",
        "--learning-rate",
        "2e-3",
        "--json",
    ]
    run = tmp_path / "run"
    code, out, err = run_command(["finetune", *files, *options, "--out", str(run)], capsys, monkeypatch)
    assert code == 0, err
    accuracy = json.loads(out)["metrics"]["accuracy"]
    assert 80 < accuracy <= 100 * 20 / 21 + 1e-6  # the label that only dev has counts as an error
    assert json.loads((run / "model" / "config.json").read_text())["label2id"] == {"down": 0, "sideways": 1, "up": 2}
    assert evaluate(str(tmp_path), model=str(run)).metrics["accuracy"] == accuracy
    test = evaluate(str(tmp_path), model=str(run), split="test")
    assert (test.split, test.examples) == ("test", 10)
    records = predict(file=str(tmp_path / "test.csv"), model=str(run)).records
    expected = predict(file=write(str(tmp_path / "bodies.csv"), "body\nslowly under mat\n"), model=str(run)).records
    assert {"label": "down"}.items() <= expected[0].items()
    assert len(records) == 10
    other = write(str(tmp_path / "other.csv"), 'body,way\n"one\ntwo",up\nthree,left\n')
    scores = evaluate(other, model=str(run))
    assert scores.metrics["accuracy"] in (0, 50)
    assert scores.remarks == [f"{run} has not learnt all labels of dev; others count as errors: `left` (1)"]


def test_the_file_that_was_learnt_from_has_no_test_split(workspace: Path) -> None:
    file = write("a.csv", CSV)
    assert len(own_task(file, NONE, None, scored="dev", learnt=True)[1]["dev"]) == 2
    with pytest.raises(UserError, match=r"`a.csv` has no test file, only train") as caught:
        own_task(file, NONE, None, scored="test", learnt=True)
    assert "--split dev" in caught.value.hint
    assert len(own_task(file, NONE, None, scored="test")[1]["test"]) == len(ROWS)


def test_words_with_tags_are_recognised_and_learnt(
    at_home: Path, tmp_path: Path, said: pytest.LogCaptureFixture
) -> None:
    draw = random.Random(0)
    for split, count in {"train": 40, "valid": 15, "test": 10}.items():
        sentences = [draw.choices(WORDS, k=6) for _ in range(count)]
        lines = ["\n".join(f"{word} {'B-PET' if word in ('cat', 'dog') else 'O'}" for word in s) for s in sentences]
        write(str(tmp_path / "pets" / f"{split}.txt"), "\n\n".join(lines) + "\n")
    run = finetune(str(tmp_path / "pets"), out=str(tmp_path / "run"), epochs=6, batch_size=4, learning_rate=2e-3)
    assert run.metrics["f1"] > 80
    assert "train 40, test 10, dev 15 sentences; the first column is the word, the last the tag; kind: tag" in said.text
    assert evaluate(str(tmp_path / "pets"), model=run.run, split="test").examples == 10
    one = str(tmp_path / "pets" / "train.txt")
    assert {split: len(part) for split, part in own_task(one, NONE, None)[1].items()} == {"train": 36, "dev": 4}
    with pytest.raises(UserError, match="has no columns to choose"):
        finetune(one, text="word")


@pytest.mark.parametrize(("version", "odds"), [("v1", False), ("v2", True)])
def test_questions_in_squads_form_are_recognised_and_learnt(
    at_home: Path, tmp_path: Path, version: str, odds: bool
) -> None:
    file = shutil.copy(GOLDENS / "squad" / f"data_{version}.json", tmp_path / "mine.json")
    options = {"epochs": 1, "max_seq_length": 48, "doc_stride": 16, "max_query_length": 16}
    run = finetune(str(file), out=str(tmp_path / "run"), **options)
    assert {"f1", "exact_match"} <= run.metrics.keys()
    assert (Path(run.run) / "null_odds.json").exists() == odds
    scored = evaluate(str(file), model=run.run)
    assert scored.metrics == run.metrics
    predict(file=str(file), model=run.run, output=str(tmp_path / "answers.json"))
    again = evaluate(str(file), model=run.run, predictions=str(tmp_path / "answers.json"))
    assert again.metrics["exact_match"] == scored.metrics["exact_match"]
    _, parts = own_task(str(file), NONE, None)
    train, dev = ({p["context"] for article in parts[split].articles for p in article["paragraphs"]} for split in parts)
    assert dev
    assert not train & dev
    assert predict(question="who", context="the cat sat", model=run.run).kind == "span"
    nowhere = predict(question="who", context="", model=run.run).records[0]
    assert nowhere == {"answer": "", "score": nowhere["score"], "start": None, "end": None}
    assert odds or nowhere["score"] == 0


ROW = {"question": "Who sat?", "context": "The cat sat.", "answers": {"text": ["cat"], "answer_start": [4]}}


def test_what_excel_and_a_file_without_names_begin_with_is_understood(
    workspace: Path, said: pytest.LogCaptureFixture
) -> None:
    write("excel.csv", "sep=;\r\n" + "text;label\r\ngood film;a\r\nbad film;b\r\n" * 1 + "so so;a\r\nno;b\r\n" * 5)
    _, parts = own_task("excel.csv", NONE, None)
    assert sum(map(len, parts.values())) == 12
    assert parts["train"].places[0].startswith("`excel.csv` line ")
    rows = '1,5.1,good film,pos\n2,2.2,"bad film",neg\n' * 4
    write("numbered.csv", rows)
    with pytest.raises(UserError, match="which is the text and which the label") as caught:
        own_task("numbered.csv", NONE, None)
    command = re.search(r"\(printf .* > \S+\.csv", caught.value.hint)
    subprocess.run(["sh", "-c", command[0]], check=True)
    assert Path("named.csv").read_text() == f"column1,column2,column3,column4\n{rows}"
    _, parts = own_task("named.csv", {"text": "column3", "text_pair": None, "label": "column4"}, None)
    assert sum(map(len, parts.values())) == 8
    write(
        "objects.jsonl",
        '{"text": "a b", "label": "x", "more": {"a b": "c d"}}\n{"text": "c d", "label": "y", "more": {"a": "b c"}}\n'
        * 5,
    )
    said.clear()
    own_task("objects.jsonl", NONE, None)
    assert "text-pair" not in said.text


def test_rows_of_questions_as_datasets_writes_them_are_questions_of_their_contexts(
    workspace: Path, said: pytest.LogCaptureFixture
) -> None:
    other = {**ROW, "id": "b", "context": "It rained.", "answers": {"text": [], "answer_start": []}}
    rows = [ROW, other, {**ROW, "id": "c", "title": "Cats"}]
    datasets.Dataset.from_list([{"id": "a", **row} for row in rows]).to_parquet("rows.parquet")
    write("rows.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows))
    for name, first in (("rows.jsonl", "1"), ("rows.parquet", "a")):
        _, parts = own_task(name, NONE, None)
        asked = {
            each["context"]: each["qas"]
            for part in parts.values()
            for (each,) in map(itemgetter("paragraphs"), part.articles)
        }
        assert [each["id"] for each in asked["The cat sat."]] == [first, "c"]
        assert asked["The cat sat."][0]["answers"] == [{"text": "cat", "answer_start": 4}]
        assert [each["is_impossible"] for each in asked["It rained."]] == [True]
    assert "train 2 contexts, 3 questions, 1 without an answer; kind: span" in said.text
    for wrong in ({"answers": {"text": ["cat"], "answer_start": []}}, {"question": None}, {"answers": None}):
        write("wrong.jsonl", f"{json.dumps(ROW)}\n{json.dumps(ROW | wrong)}\n")
        with pytest.raises(UserError, match=r"`wrong.jsonl` line 2 is not a question with its context"):
            own_task("wrong.jsonl", NONE, None)


def test_answers_that_are_longer_than_what_is_predicted_are_counted(
    at_home: Path, tmp_path: Path, said: pytest.LogCaptureFixture
) -> None:
    file = shutil.copy(GOLDENS / "squad" / "data_v1.json", tmp_path / "mine.json")
    options = {"epochs": 1, "max_seq_length": 48, "doc_stride": 16, "max_query_length": 16, "max_answer_length": 1}
    run = finetune(str(file), out=str(tmp_path / "run"), **options)
    assert (
        "train answers are longer than 1 tokens, the maximum length of a prediction; --max-answer-length" in said.text
    )
    found = predict(question="who", context="the cat sat under the mat", model=run.run).records[0]
    assert len(str(found["answer"]).split()) == 1
    said.clear()
    finetune(str(file), out=str(tmp_path / "other"), **options | {"max_answer_length": 40})
    assert "are longer than" not in said.text


def test_a_table_is_predicted_by_the_columns_of_the_run(
    at_home: Path, tmp_path: Path, said: pytest.LogCaptureFixture
) -> None:
    rows = "".join(f"{number},the {word},{number % 2}\n" for number, word in enumerate(WORDS))
    Path("comments.csv").write_text("text,remark,kind\n" + rows)
    finetune("comments.csv", text="remark", label="kind", epochs=1)
    table = write(str(tmp_path / "new.jsonl.gz"), gzip.compress(b'{"remark": "the cat"}\n{"remark": null}\n'))
    predictions = predict(file=table)
    assert predictions.model == "runs/comments/model"
    alone = predict("the cat", model="runs/comments").records[0]
    assert predictions.records[0] | {"scores": None} == alone | {
        "score": pytest.approx(alone["score"], abs=1e-5),
        "scores": None,
    }
    assert f"1 of 2 rows have no text; the first is `{table}` line 2" in said.text


def test_columns_of_zero_and_one_are_several_labels(
    at_home: Path, tmp_path: Path, said: pytest.LogCaptureFixture
) -> None:
    rows = "".join(f"the {word},{number % 2},{int(number % 3 == 0)}\n" for number, word in enumerate(WORDS))
    table = write(str(tmp_path / "remarks.csv"), "remark,toxic,insult\n" + rows)
    run = finetune(table, label="toxic,insult", epochs=1, out=str(tmp_path / "run"))
    assert "kind: multilabel, 2 labels: insult, toxic" in said.text
    scores = evaluate(table, model=[run.run])
    assert set(scores.metrics) >= {"micro_f1", "macro_f1"}
    assert set(predict("the cat", model=run.run).records[0]["scores"]) == {"toxic", "insult"}
    broken = write(str(tmp_path / "broken.csv"), "remark,toxic,insult\nfine,0,0\nthe cat,2,0\n")
    with pytest.raises(UserError, match=r"broken.csv` line 3 has `2` in the column `toxic`"):
        finetune(broken, label="toxic,insult")
    with pytest.raises(UserError, match="insilt"):
        finetune(table, label="toxic,insilt")


def test_lists_of_words_and_tags_are_tagged_sentences(
    at_home: Path, tmp_path: Path, said: pytest.LogCaptureFixture
) -> None:
    rows = [
        {"tokens": ["the", word], "ner_tags": ["O", f"B-{'LOC' if n % 2 else 'PER'}"]} for n, word in enumerate(WORDS)
    ]
    table = write(str(tmp_path / "names.jsonl"), "".join(json.dumps(row) + "\n" for row in rows))
    run = finetune(table, epochs=1, out=str(tmp_path / "run"))
    assert "lists of words and tags; kind: tag, 3 tags" in said.text
    assert "f1" in run.metrics
    for line, what in (
        ('{"tokens": ["a", "b"], "tags": ["O"]}', "line 2 does not have one tag per word"),
        ('{"tokens": ["a"], "tags": [3]}', "line 2 has a word or a tag that is no text"),
    ):
        broken = write(str(tmp_path / "broken.jsonl"), '{"tokens": ["a"], "tags": ["O"]}\n' + line + "\n")
        with pytest.raises(UserError, match=what):
            finetune(broken)


def test_several_files_that_are_trained_on_together_are_named(workspace: Path, said: pytest.LogCaptureFixture) -> None:
    for name in ("train.csv", "holdout.csv"):
        Path(name).write_text(CSV)
    own_task("train.csv,holdout.csv", NONE, None)
    words = (
        "all of these files are trained on: holdout.csv, train.csv; to score one instead, call it dev.csv or test.csv"
    )
    assert words in said.text


def test_texts_that_have_several_labels_are_counted(workspace: Path, said: pytest.LogCaptureFixture) -> None:
    Path("same.csv").write_text("text,label\n" + "a film,pos\na film,neg\n" * 10 + "no film,neg\n" * 20)
    task, parts = own_task("same.csv", NONE, None)
    Source(task, own=parts).for_training(True).read_to_train(None)
    assert "34 of 36 train examples repeat others; 18 are given different answers" in said.text


def test_one_number_for_all_is_no_whole_number(workspace: Path, said: pytest.LogCaptureFixture) -> None:
    Path("const.csv").write_text("text,score\n" + "a film,2.5\nno film,2.5\n" * 10)
    with pytest.raises(UserError, match=r"has only the label `2.5`"):
        own_task("const.csv", NONE, None)
    assert "as they are one number (--kind regress: they are values)" in said.text


def test_labels_with_line_breaks_are_shown_on_one_line(workspace: Path, said: pytest.LogCaptureFixture) -> None:
    Path("films.csv").write_text("text,label\n" + 'a film,"very\ngood"\nno film,bad\n' * 9)
    assert own_task("films.csv", NONE, None)[0].labels == ("bad", "very\ngood")
    assert "2 labels: bad, very good (9 rows each)" in said.text


def test_labels_that_differ_only_in_case_are_named(workspace: Path, said: pytest.LogCaptureFixture) -> None:
    Path("films.csv").write_text("text,label\n" + "a film,pos\nno film,neg\nthe film,Pos\n" * 9)
    assert own_task("films.csv", NONE, None)[0].labels == ("Pos", "neg", "pos")
    assert "labels that differ only in upper and lower case are different labels: pos, Pos" in said.text
    Path("films.csv").write_text("text,label\n" + "a film,é\nno film,neg\nthe film,e\u0301\n" * 9)
    assert len(own_task("films.csv", NONE, None)[0].labels) == 3
    assert "differ only in upper and lower case, or in Unicode's form, are different labels: é, e\u0301" in said.text


def test_numbers_of_three_decimals_are_values_where_no_whole_number_beside_them_has_three_digits(
    workspace: Path,
) -> None:
    Path("sums.csv").write_text("text,label\n" + "".join(f"film {row},{row / 7:.3f}\n" for row in range(60)))
    assert own_task("sums.csv", NONE, None)[0].kind == "regress"
    Path("sums.csv").write_text("text,label\n" + "a film,2.754\nno film,895\n" * 30)
    assert own_task("sums.csv", NONE, "regress")[0].kind == "regress"
