"""Files that a user gives, damaged, hostile or no files at all: a result or an error of one line, in bounded time and memory."""

import gzip
import io
import json
import os
import random
import tarfile
import zipfile
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from damaging import damage, failure
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bertcli.config.recipes import read_recipe
from bertcli.config.training import FinetuneConfig
from bertcli.config.use import PredictConfig
from bertcli.data.labelled.prediction_table import finite, has_lists_of_labels, read_by_question
from bertcli.data.text import files
from bertcli.data.text.documents import find_text_files, read_documents
from bertcli.data.text.tokenization import load_tokenizer
from bertcli.errors import UserError
from bertcli.kinds import KINDS
from bertcli.kinds.kind import Split
from bertcli.lifecycle import convert, evaluate, predict
from bertcli.lifecycle.own_files import own_task
from bertcli.lifecycle.predicting.inputs import read_inputs
from bertcli.lifecycle.sources import find_source

ROWS = [{"text": f'the "{n}" cat, sat', "text_pair": "it ran", "label": "yes" if n % 2 else "no"} for n in range(12)]
LISTS = [{"tokens": ["the", "cat", "Rome"], "tags": ["O", "O", "B-LOC"]} for _ in range(4)]
CHOICES = [{"text": "the cat", "choices": ["sat", "ran"], "label": n % 2} for n in range(12)]
SQUAD = {
    "data": [
        {
            "title": "a",
            "paragraphs": [
                {
                    "context": "The cat sat on the mat.",
                    "qas": [
                        {"id": "q1", "question": "Who?", "answers": [{"text": "cat", "answer_start": 4}]},
                        {"id": "q2", "question": "Why?", "answers": [], "is_impossible": True},
                    ],
                }
            ],
        }
    ]
}


def lines(rows: Iterable[dict[str, object]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def table(delimiter: str) -> bytes:
    quoted = (delimiter.join('"{}"'.format(cell.replace('"', '""')) for cell in row.values()) for row in ROWS)
    return "\n".join([delimiter.join(ROWS[0]), *quoted, ""]).encode()


def parquet() -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(ROWS), file)
    return file.getvalue()


def zipped(name: str, content: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return file.getvalue()


GLUE = b"index\tsentence1\tsentence2\tlabel\n" + b"".join(b"%d\ta cat\ta dog\tentailment\n" % n for n in range(9))


def train(path: Path) -> None:
    task, parts = own_task(str(path), {"text": None, "text_pair": None, "label": None}, None)
    KINDS[task.kind].for_use(task, parts["train"], training=True)


def score(path: Path) -> None:
    task, parts = own_task(str(path), {"text": None, "text_pair": None, "label": None}, None, scored="dev")
    kind = KINDS[task.kind]
    examples = kind.for_use(task, parts["dev"], training=False)
    _ = examples.digest, [*kind.labels_of(task, examples)]


def predict_for(path: Path) -> None:
    for _ in read_inputs(PredictConfig(file=str(path))).rows:
        pass


def read_labels(path: Path) -> None:
    has_lists_of_labels(path)
    rows = path.with_name("rows.csv")
    rows.write_bytes(table(","))
    task, parts = own_task(str(rows), {"text": None, "text_pair": None, "label": None}, None, scored="dev")
    KINDS[task.kind].read_predictions(task, Split("dev", parts["dev"]), path)


def read_answers(path: Path) -> None:
    read_by_question(path, str, "answer", "answer")
    read_by_question(path, finite, "score", "score")


def read_text_files(path: Path) -> None:
    for _ in read_documents(find_text_files([str(path)])):
        pass


def read_vocabulary(path: Path) -> None:
    load_tokenizer(path).encode(["the cat"])


def read_options(path: Path) -> None:
    FinetuneConfig.build("rows.csv", read_recipe(str(path)))


def read_official(path: Path) -> None:
    find_source("glue/rte", str(path.parent)).read("train")


TEXT = "The cat sat.\nIt ran.\n\nA new document – with ümläuts.\n".encode()
VOCABULARY = "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "##s", ""]).encode()
LABELS = ["yes" if n % 2 else "no" for n in range(12)]
OPTIONS = b"epochs: 2\nlearning_rate: 2.0e-5\nseed: 1\nbaseline: false\nfrom: runs/a\n"
Reader = Callable[[Path], None]
READERS: list[tuple[str, bytes, tuple[Reader, ...]]] = [
    ("a.csv", table(","), (train, score, predict_for)),
    ("a.tsv", table("\t"), (train, score, predict_for)),
    ("a.jsonl", lines(ROWS), (train, score, predict_for)),
    ("a.json", lines(ROWS), (train, score, predict_for)),
    ("a.parquet", parquet(), (train, score, predict_for)),
    ("a.csv.gz", gzip.compress(table(","), mtime=0), (train, score, predict_for)),
    ("tags.jsonl", lines(LISTS), (train, score)),
    ("choices.jsonl", lines(CHOICES), (train, score)),
    ("a.conll", b"the O\ncat O\n\nRome B-LOC\nis O\n" * 3, (train, score)),
    ("squad.json", json.dumps(SQUAD).encode(), (train, score)),
    ("a.txt", TEXT, (read_text_files, predict_for)),
    ("labels.csv", "\n".join(["prediction,score", *(f"{label},0.5" for label in LABELS), ""]).encode(), (read_labels,)),
    ("labels.jsonl", lines({"label": label, "index": n} for n, label in enumerate(LABELS)), (read_labels,)),
    ("answers.json", json.dumps({"q1": "cat", "q2": ""}).encode(), (read_answers,)),
    ("scores.json", json.dumps({"q1": 0.5, "q2": -1}).encode(), (read_answers,)),
    ("vocab.txt", VOCABULARY, (read_vocabulary,)),
    ("recipe.yaml", OPTIONS, (read_options,)),
    ("RTE.zip", zipped("RTE/train.tsv", GLUE), (read_official,)),
]


UNNAMED = ("recipe.yaml", "RTE.zip", "squad.json")  # an error may name the option, the file inside, or the question


@pytest.mark.parametrize("cases", [600, pytest.param(10_000, marks=pytest.mark.torture)])
def test_a_damaged_file_of_a_user_is_a_result_or_an_error_that_names_it(cases: int, workspace: Path) -> None:
    failed = []
    for case in range(cases):
        chance = random.Random(case)
        name, content, readers = READERS[case % len(READERS)]
        path = workspace / name
        path.write_bytes(content)
        damage(path, chance) if chance.random() < 0.9 else path.write_bytes(chance.randbytes(chance.randrange(2000)))
        read = chance.choice(readers)
        if wrong := failure(lambda path=path, read=read: read(path), path, names_file=name not in UNNAMED):
            failed.append(f"{case}: {name} by {read.__name__}: {wrong}")
        path.unlink()
    assert failed == []


@pytest.mark.parametrize(("name", "content", "readers"), READERS, ids=[name for name, *_ in READERS])
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_content_of_a_file_is_a_result_or_an_error(
    name: str, content: bytes, readers: tuple[Reader, ...], workspace: Path, data: st.DataObject
) -> None:
    is_text = not name.endswith((".gz", ".parquet", ".zip"))
    written = st.text().map(lambda text: text.encode("utf-8", "replace")) if is_text else st.binary()
    begins = data.draw(st.integers(0, len(content)))
    path = workspace / name
    path.write_bytes(content[:begins] + data.draw(written))
    for read in readers:
        assert failure(lambda read=read: read(path), path) == ""


SPECIAL = {
    "pipe": os.mkfifo,
    "zero": lambda path: path.symlink_to("/dev/zero"),
    "loop": lambda path: path.symlink_to(path.name),
    "folder": os.mkdir,
}


@pytest.mark.parametrize("special", SPECIAL)
def test_what_is_no_file_is_refused_by_every_command(special: str, workspace: Path) -> None:
    (workspace / "rows.csv").write_bytes(table(","))
    for name, _, readers in READERS:
        if not name.endswith(".zip"):
            SPECIAL[special](workspace / name)
            for read in readers:
                with pytest.raises(UserError, match=r"pipe or a device|file|folder|holds"):
                    failing(read, workspace / name)
    for use in (
        lambda path: convert.convert(path),
        lambda path: evaluate.evaluate("rows.csv", predictions=path),
        lambda path: predict.predict(text="a", model=path),
    ):
        SPECIAL[special](workspace / "given")
        with pytest.raises(UserError):
            use("given")
        (workspace / "given").rename(workspace / f"given-{id(use)}")


def failing(read: Reader, path: Path) -> None:
    read(path)
    raise AssertionError(f"{read.__name__} takes {path}")


def test_what_unpacks_beyond_measure_is_refused(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "UNPACKED_FROM", 10**6)
    monkeypatch.setattr(convert, "SMALLEST_BOMB", 10**6)
    bomb = b"text,label\n" + b"a cat,yes\nthe dog,no\n" * 100_000
    (workspace / "bomb.csv.gz").write_bytes(gzip.compress(bomb))
    for read in (train, score, predict_for):
        with pytest.raises(UserError, match=r"bomb.csv.gz` unpacks to more than"):
            read(workspace / "bomb.csv.gz")
    (workspace / "bomb.zip").write_bytes(zipped("bert_model.ckpt.index", bomb))
    with pytest.raises(UserError, match="would unpack to 2 MB"):
        convert.convert("bomb.zip")
    pq.write_table(pa.table({"text": pa.repeat("a", 5_000_000)}), workspace / "bomb.parquet")
    with pytest.raises(UserError, match="5,000,000 rows in"):
        train(workspace / "bomb.parquet")


def test_members_of_an_archive_stay_inside_the_folder(workspace: Path) -> None:
    with zipfile.ZipFile(workspace / "evil.zip", "w") as archive:
        for name in ("../../outside.index", "/tmp/outside.index", "a/b.index", "a/bert_config.json", "other.py"):
            archive.writestr(name, "x")
    scratch = workspace / "one" / "two"
    scratch.mkdir(parents=True)
    convert._extract(workspace / "evil.zip", scratch)
    found = {str(path.relative_to(workspace)) for path in workspace.rglob("*") if path.is_file()} - {"evil.zip"}
    inside = {"outside.index", "tmp/outside.index", "a/b.index", "a/bert_config.json"}
    assert found == {f"one/two/{name}" for name in inside}


def test_links_in_an_archive_are_not_followed(workspace: Path) -> None:
    (workspace / "secret").write_text("secret")
    with tarfile.open(workspace / "aclImdb_v1.tar.gz", "w:gz") as archive:
        for split, label in ((split, label) for split in ("train", "test") for label in ("neg", "pos")):
            for number in range(3):
                member = tarfile.TarInfo(f"aclImdb/{split}/{label}/{number}_1.txt")
                member.size = 5
                archive.addfile(member, io.BytesIO(b"a cat"))
            link = tarfile.TarInfo(f"aclImdb/{split}/{label}/9_1.txt")
            link.type, link.linkname = tarfile.SYMTYPE, str(workspace / "secret")
            archive.addfile(link)
    read = find_source("imdb", str(workspace)).read("train").examples
    assert read.texts == ["a cat"] * 6


def test_aliases_deep_nesting_and_a_key_twice_in_a_recipe_are_refused(workspace: Path) -> None:
    laughs = "a: &a [x, x]\n" + "".join(f"{new}: &{new} [*{old}, *{old}]\n" for old, new in pairwise("abcdefghi"))
    for text, why in (
        (laughs, "aliases"),
        ("a: " + "[" * 1500, "nested"),
        ("seed: " + "9" * 9000, "digit"),
        ("a: " + "b" * 2_000_000, "more than 1 MB"),
        ("epochs: 1\nseed: 0\nepochs: 2", "has the key `epochs` twice"),
        ("a: [{b: 1, b: 2}]", "has the key `b` twice"),
    ):
        (workspace / "recipe.yaml").write_text(text)
        with pytest.raises(UserError, match=why):
            read_recipe("recipe.yaml")


def test_a_header_of_20_000_columns_costs_a_second_at_most(workspace: Path) -> None:
    import time

    names = [f"c{number}" for number in range(20_000)]
    (workspace / "wide.csv").write_text("\n".join([",".join(names), *[",".join("x" for _ in names)] * 3]))
    started = time.process_time()
    for read in (train, predict_for):
        with pytest.raises(UserError):
            read(workspace / "wide.csv")
    assert time.process_time() - started < 2
