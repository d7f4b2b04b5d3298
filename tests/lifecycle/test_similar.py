"""The rows of a file nearest in meaning: vectors as sentence-transformers', kept while file and model are unchanged."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from bertcli.errors import UserError
from bertcli.lifecycle.pretrain import pretrain
from bertcli.lifecycle.pretrained import MINILM
from bertcli.lifecycle.similar import similar
from bertcli.lifecycle.similarity import vector_cache
from bertcli.lifecycle.similarity.encoder import TextEncoder
from bertcli.lifecycle.workspace import latest_pretraining_data
from tests.cli.test_main import run

LogCapture = pytest.LogCaptureFixture
TEXTS = ["the cat sat on the mat", "a dog ran under the old tree", "happily", "birds sang in the green garden"]


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of texts of each call of the encoder."""
    counts: list[int] = []
    encode = TextEncoder.encode

    def counting(self: TextEncoder, texts: list[str], *rest: object) -> np.ndarray:
        counts.append(len(texts))
        return encode(self, texts, *rest)

    monkeypatch.setattr(TextEncoder, "encode", counting)
    return counts


@pytest.fixture
def model(home: Path, workspace: Path) -> str:
    """A tiny model; the working folder is empty."""
    Path("texts.csv").write_text("text,label\n" + "".join(f"{text},{len(text)}\n" for text in TEXTS))
    return str(home / "runs" / "pretrain-tiny")


def test_a_row_is_nearest_to_its_own_text_and_comes_with_its_line_and_columns(model: str) -> None:
    found = similar(file="texts.csv", text=[TEXTS[2], TEXTS[0]], model=model, top_k=2)
    (first, second), (third, _) = (each["nearest"] for each in found.texts)
    assert first == {"cosine": 1.0, "line": 4, "text": "happily", "columns": {"text": "happily", "label": "7"}}
    assert third["line"] == 2
    assert second["cosine"] < 1
    assert found.compared == 4


def test_the_vectors_of_two_encoders_are_joined(home: Path, model: str) -> None:
    options = {"data": str(home / "pretraining-data"), "size": "tiny", "steps": 2, "batch_size": 4}
    joined = pretrain(**options, objective="two-directions", out="joined").run
    assert similar(file="texts.csv", text="happily", model=joined).texts[0]["nearest"][0]["line"] == 4


def test_every_table_gives_the_same_rows(model: str) -> None:
    Path("texts.txt").write_text("\n".join(TEXTS) + "\n")
    Path("texts.jsonl").write_text("".join(json.dumps({"id": 1, "text": text}) + "\n" for text in TEXTS))
    Path("other.tsv").write_text("number\tquery\n" + "".join(f"1\t{text}\n" for text in TEXTS))
    columns = {"other.tsv": "query"}
    found = [
        similar(file, text=["the cat"], model=model, text_column=columns.get(file)).texts[0]["nearest"]
        for file in ("texts.csv", "texts.txt", "texts.jsonl", "other.tsv")
    ]
    first, *others = ([(row["text"], row["cosine"]) for row in rows] for rows in found)
    assert others == [first] * 3


def test_the_column_is_that_which_the_models_run_learnt_from(model: str, said: LogCapture) -> None:
    shutil.copytree(Path(model, "model"), "runs/mine/model")
    Path("runs/mine/config.yaml").write_text("command: finetune\ntask: mine\nkind: classify\ntext: query\n")
    Path("two.csv").write_text("text,query\na,the cat\n")
    assert similar("two.csv", text=["a"], model="runs/mine").texts[0]["nearest"][0]["text"] == "the cat"
    assert similar("two.csv", text=["a"], model=model).texts[0]["nearest"][0]["text"] == "a"


def test_vectors_are_kept_and_reused_until_a_text_or_the_model_changes(
    model: str, home: Path, encoded: list[int], said: LogCapture, tmp_path: Path
) -> None:
    before = similar("texts.csv", text=["the cat"], model=model)
    assert similar("texts.csv", text=["the cat"], model=model) == before
    assert encoded == [1, 4, 1]
    assert "kept; texts and model are unchanged" in said.text
    Path("texts.csv").write_text(Path("texts.csv").read_text() + "a new one,1\n")
    similar("texts.csv", text=["the cat"], model=model)
    assert encoded[-2:] == [1, 5]
    assert "made again, because rows and texts changed" in said.text
    similar("texts.csv", text=["the cat"])  # of the model in the package
    assert encoded[-2:] == [1, 5]
    assert "made again, because model changed" in said.text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["texts.csv", "texts.csv.vectors"]
    with pytest.raises(UserError, match="no pre-training data"):  # which vectors are not
        latest_pretraining_data()


@pytest.mark.parametrize(
    "damage", ["vectors.npy: a bit", "vectors.npy: cut", "vectors.npy: pickle", "vectors.json: cut"]
)
def test_a_damaged_file_is_noticed_and_made_again(
    model: str, damage: str, encoded: list[int], said: LogCapture
) -> None:
    before = similar("texts.csv", text=["the cat"], model=model)
    name, _, how = damage.partition(": ")
    path = Path("texts.csv.vectors", name)
    data = bytearray(path.read_bytes())
    if how == "pickle":
        np.save(path, np.array([{"a": 1}]), allow_pickle=True)
    else:
        data[-3] ^= how == "a bit"
        path.write_bytes(data[: None if how == "a bit" else -40])
    assert similar("texts.csv", text=["the cat"], model=model) == before
    assert "texts.csv.vectors: damaged, and made again" in said.text
    assert similar("texts.csv", text=["the cat"], model=model) == before
    assert encoded == [1, 4, 1, 4, 1]


def test_where_they_cannot_be_kept_they_are_not_and_nothing_is_lost(model: str, said: LogCapture) -> None:
    Path("texts.csv.vectors").mkdir()
    Path("texts.csv.vectors", "mine.txt").write_text("dear")
    similar("texts.csv", text=["the cat"], model=model)
    assert "the vectors are not kept: `texts.csv.vectors` holds something else" in said.text
    assert os.listdir("texts.csv.vectors") == ["mine.txt"]


def test_in_a_folder_that_is_read_only_they_are_not_kept_and_one_line_says_so(
    model: str, said: LogCapture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(vector_cache.np, "save", fail)
    assert similar("texts.csv", text=["the cat"], model=model).texts[0]["nearest"]
    assert said.text.count("not kept: Permission denied") == 1
    assert sorted(os.listdir()) == ["texts.csv"]


def test_near_duplicates_are_found_and_counted(model: str, said: LogCapture) -> None:
    Path("texts.txt").write_text("\n".join([*TEXTS, "", "Happily", *TEXTS[:1]]) + "\n")
    found = similar("texts.txt", pairs=True, threshold=0.99999, model=model)
    assert [[row["line"] for row in pair["rows"]] for pair in found.pairs] == [[1, 7], [3, 6]]
    assert found.pairs_found == 2
    assert similar("texts.txt", pairs=True, threshold=1, model=model).pairs_found == 2  # whatever float32 rounds
    assert "1 of 7 rows have no text" in said.text
    fewer = similar("texts.txt", pairs=True, threshold=-1, top_k=1, model=model)
    assert fewer.pairs_found == 15
    assert len(fewer.pairs) == 1


def test_a_model_that_was_not_trained_for_it_is_allowed_and_said(model: str, said: LogCapture) -> None:
    similar("texts.csv", text=["the cat"], model=model)
    assert "was not trained to compare meanings: its cosines tell less than those of minilm" in said.text


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"text": ["a"]}, "Which file is to be searched"),
        ({"file": "texts.csv"}, "nothing to search for"),
        ({"file": "texts.csv", "text": ["a"], "pairs": True}, "--text and --pairs do not go together"),
        ({"file": "texts.csv", "text": [" "]}, "nothing to search for"),
        ({"file": "texts.csv", "texts": ""}, "--texts is empty"),
        ({"file": "texts.csv", "text": ["a"], "threshold": 0.5}, "--threshold needs --pairs"),
        ({"file": "nothing.csv", "text": ["a"]}, "no file `nothing.csv`"),
        ({"file": "texts.csv", "text": ["a"], "text_column": "txet"}, "column of texts.csv: `txet`"),
        ({"file": "odd.csv", "text": ["a"]}, "which is the text"),
        ({"file": "texts.txt", "text": ["a"], "text_column": "text2"}, "column of texts.txt"),
        ({"file": "blank.txt", "text": ["a"]}, "holds no texts"),
        ({"file": "squad.json", "pairs": True}, "`squad.json` has questions, not texts"),
    ],
)
def test_a_wrong_request_is_said(model: str, options: dict[str, object], what: str) -> None:
    Path("odd.csv").write_text("a,b\n1,2\n")
    Path("texts.txt").write_text("a\n")
    Path("blank.txt").write_text("\n\n")
    asked = {"context": "Ada wrote it.", "qas": [{"id": "1", "question": "Who?", "answers": []}]}
    Path("squad.json").write_text(json.dumps({"data": [{"paragraphs": [asked]}]}))
    with pytest.raises(UserError, match=what):
        similar(**options, model=model)


def test_the_command_prints_a_table_or_one_object(
    model: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    request = ["similar", "--file", "texts.csv", "--model", model]
    code, out, err = run([*request, "--text", "happily", "--top-k", "1", "--json"], capsys, monkeypatch)
    assert code == 0, err
    assert json.loads(out)["texts"][0]["nearest"][0]["line"] == 4
    Path("queries.txt").write_text("happily\n\nthe cat\n")
    _, out, _ = run([*request, "--texts", "queries.txt"], capsys, monkeypatch)
    assert out.count("cosine  line  text") == 2
    _, out, _ = run([*request, "--pairs", "--threshold", "-1"], capsys, monkeypatch)
    assert "and line" in out


def test_minilm_is_taken_where_it_is_installed(minilm: Path, model: str, said: LogCapture) -> None:
    assert similar("texts.csv", text=["a"], dry_run=True).model == str(MINILM.folder)
    assert "model: minilm" in said.text


def test_texts_to_search_for_may_be_a_column_of_a_table(
    workspace: Path, model: str, said: pytest.LogCaptureFixture
) -> None:
    Path("texts.csv").write_text("text,label\n" + "".join(f"{text},{len(text)}\n" for text in TEXTS))
    Path("asked.csv").write_text("id,text\n7,the cat\n8,\n")
    found = similar("texts.csv", texts="asked.csv", model=model)
    assert [each["text"] for each in found.texts] == ["the cat"]
    with pytest.raises(UserError, match=r"There is no file `none.txt`"):
        similar("texts.csv", texts="none.txt", model=model)


def test_a_list_of_words_is_a_text(model: str) -> None:
    Path("words.jsonl").write_text('{"tokens": ["the", "cat"]}\n{"tokens": ["a", "dog"]}\n')
    assert similar("words.jsonl", text=["the cat"], model=model).texts[0]["nearest"][0]["text"] == "the cat"


def test_a_file_whose_text_has_no_known_name_is_refused_with_the_column_that_has_the_longest_texts(model: str) -> None:
    Path("odd.csv").write_text("mood,said\n" + "".join(f"good,{text}\n" for text in TEXTS))
    with pytest.raises(UserError, match=r"mood, said: which is the text\?") as refused:
        similar(file="odd.csv", text=["the cat"], model=model)
    assert refused.value.hint == "Name it: --text-column said"
    assert similar(file="odd.csv", text=["the cat"], model=model, text_column="said").rows
