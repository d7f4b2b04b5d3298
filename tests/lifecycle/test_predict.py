"""Prediction of files: every form, read as they are needed, in input order, and what stays when a line is wrong."""

import csv
import io
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import yaml
from conftest import GOLDENS, WORDS
from hypothesis import given
from hypothesis import strategies as st

from bertcli import kernels
from bertcli.config.training import FinetuneConfig
from bertcli.config.use import PredictConfig
from bertcli.data.labelled.squad import split_words
from bertcli.data.text.tables import chunks_of, read_table, stream_table
from bertcli.errors import UserError
from bertcli.lifecycle import predict as prediction
from bertcli.lifecycle.baseline import baseline
from bertcli.lifecycle.evaluate import evaluate
from bertcli.lifecycle.finetune import finetune
from bertcli.lifecycle.predict import predict, stream
from bertcli.lifecycle.predicting.inputs import inputs_of, read_inputs
from bertcli.training import device
from bertcli.training.run_folder import RunFolder
from tests.cli.test_main import run

LogCapture = pytest.LogCaptureFixture
ROOT = Path(__file__).parents[2]
LABELS = ('well, "good"', "bad\nnews")


@pytest.fixture(scope="session")
def model(home: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A run whose labels need quoting."""
    folder = tmp_path_factory.mktemp("model")
    with (folder / "mood.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *zip(WORDS, itertools.cycle(LABELS), strict=False)])
    start = str(home / "runs" / "pretrain-tiny")
    return finetune(str(folder / "mood.csv"), from_=start, out=str(folder / "run"), epochs=1).run


@pytest.fixture(scope="session")
def expected(model: str) -> dict[str, Any]:
    """Texts of several lengths with their probabilities, each predicted alone."""
    draw = random.Random(0)
    texts = [" ".join(draw.choices(WORDS, k=draw.randint(1, 30))) for _ in range(10)]
    return {text: predict(text, model=model).records[0]["scores"] for text in texts}


@pytest.fixture
def chunks_of_three(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prediction, "CHUNK_CHARACTERS", 3 * prediction.ROW_CHARACTERS)


def read_csv(path: str | Path) -> list[dict[str, str]]:
    with Path(path).open(newline="") as file:
        return list(csv.DictReader(file))


def give_stdin(monkeypatch: pytest.MonkeyPatch, data: io.BufferedIOBase | str) -> None:
    buffer = io.BufferedReader(io.BytesIO(data.encode())) if isinstance(data, str) else data
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(buffer))


def write_lines(path: Path, texts: list[str]) -> None:
    path.write_text("".join(text + "\n" for text in texts))


def write_json(path: Path, texts: list[str]) -> None:
    write_lines(path, [json.dumps({"text": text, "id": number}) for number, text in enumerate(texts)])


def write_delimited(path: Path, texts: list[str]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",")
        writer.writerows([("text", "id"), *zip(texts, itertools.count(), strict=False)])


def write_parquet(path: Path, texts: list[str]) -> None:
    pq.write_table(pa.table({"text": texts}), path, row_group_size=1000)


FORMS: dict[str, Callable[[Path, list[str]], None]] = {
    "txt": write_lines,
    "jsonl": write_json,
    "csv": write_delimited,
    "tsv": write_delimited,
    "parquet": write_parquet,
}


@pytest.mark.usefixtures("chunks_of_three")
@pytest.mark.parametrize("form", [*FORMS, "-", "- of JSON lines"])
def test_every_form_of_a_file_gives_the_same_predictions_in_input_order(
    workspace: Path, model: str, expected: dict[str, Any], form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = list(expected)
    FORMS.get(form, write_json if "JSON" in form else write_lines)(Path(f"in.{form}"), texts)
    give_stdin(monkeypatch, Path(f"in.{form}").read_text("latin-1"))
    records = predict(file="-" if form.startswith("-") else f"in.{form}", model=model).records
    for record, scores in zip(records, expected.values(), strict=True):
        assert record["scores"] == pytest.approx(scores, abs=1e-5)


class Endless(io.RawIOBase):
    """A standard input that never ends."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        buffer[:] = (b"the cat\n" * (len(buffer) // 8 + 1))[: len(buffer)]
        return len(buffer) // 8 * 8


def test_an_input_without_an_end_is_predicted_as_it_comes(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    give_stdin(monkeypatch, io.BufferedReader(Endless()))
    found = stream(PredictConfig(file="-", model=model))
    assert len(list(itertools.islice(found.records, 3000))) == 3000


@pytest.mark.parametrize("form", ["csv", "tsv", "jsonl", "parquet"])
def test_a_file_takes_as_much_memory_as_a_tenth_of_it(workspace: Path, form: str) -> None:
    peaks = []
    for count in (2500, 25_000):
        FORMS[form](path := Path(f"{count}.{form}"), ['the "cat", and\tthe dog'] * count)
        next(stream_table(path)[1])  # what is imported and kept is not counted
        tracemalloc.start()
        assert sum(1 for _ in stream_table(path)[1]) == count
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]


@given(st.lists(st.integers(0, 9)), st.integers(1, 20), st.integers(0, 60))
def test_chunks_hold_all_items_in_order_and_come_before_an_error(sizes: list[int], most: int, broken: int) -> None:
    def items() -> Any:
        for place, size in enumerate(sizes):
            if place == broken:
                raise UserError("wrong", "")
            yield size

    found: list[list[int]] = []
    if broken < len(sizes):
        with pytest.raises(UserError):
            found.extend(chunks_of(items(), most, lambda size: size))
    else:
        found.extend(chunks_of(items(), most, lambda size: size))
    assert list(itertools.chain(*found)) == sizes[:broken]
    assert all(chunk and sum(chunk[:-1]) < most for chunk in found)
    assert all(sum(chunk) >= most for chunk in found[:-1])


@pytest.mark.usefixtures("chunks_of_three")
@pytest.mark.parametrize("output", ["out.jsonl", "out.csv"])
@pytest.mark.parametrize(
    ("name", "good", "wrong", "message"),
    [
        ("a.jsonl", b'{"text": "the cat"}\n', b'{"text": "x"\n', "`a.jsonl` line 5 is not JSON"),
        ("a.jsonl", b'{"text": "the cat"}\n', b"[1]\n", "`a.jsonl` line 5 is not an object"),
        ("a.csv", b"text\n", b"x,y\n", "`a.csv` line 5 has 2 fields, the header 1"),
        ("a.csv", b"text\n", b'"x\n', "`a.csv` line 5: a quotation mark is never closed"),
        ("a.txt", b"the cat\n", b"caf\xe9\n", "`a.txt` line 5 is not UTF-8"),
        ("a.txt", b"the cat\n", b"\0\1\2\n", "`a.txt` line 5 is not text but binary"),
    ],
    ids=["json", "no object", "fields", "quote", "latin", "binary"],
)
def test_a_wrong_line_is_one_error_and_what_came_before_it_stays(
    workspace: Path, model: str, name: str, good: bytes, wrong: bytes, message: str, output: str, said: LogCapture
) -> None:
    Path(name).write_bytes(good * 4 + wrong + good)
    with pytest.raises(UserError, match=message):
        predict(file=name, model=model, output=output)
    before = 3 if name == "a.csv" else 4
    assert len(read_csv(output) if output == "out.csv" else Path(output).read_text().splitlines()) == before
    assert f"wrote {output}: {before} predictions" in said.text


def test_a_csv_of_predictions_has_label_names_and_probabilities_and_is_quoted(workspace: Path, model: str) -> None:
    Path("in.txt").write_text("the cat\na dog\n")
    records = predict(file="in.txt", model=model).records
    predict(file="in.txt", model=model, output="out.csv")
    rows = read_csv("out.csv")
    assert list(rows[0]) == ["text", "prediction", "score", *(f"score_{name}" for name in sorted(LABELS))]
    for row, record in zip(rows, records, strict=True):
        assert row["prediction"] == record["label"] in LABELS
        assert (
            float(row[f"score_{row['prediction']}"]) == float(row["score"]) == pytest.approx(record["score"], abs=1e-5)
        )


def test_the_columns_of_the_input_are_kept_in_their_order(
    workspace: Path, model: str, said: pytest.LogCaptureFixture
) -> None:
    Path("in.csv").write_text('id,text,score\n7,"the cat, sat",good\n9,a dog,\n')
    predict(file="in.csv", model=model, output="out.csv")
    rows = read_csv("out.csv")
    assert list(rows[0])[:5] == ["id", "text", "score", "prediction", "score_2"]
    assert [(row["id"], row["text"], row["score"]) for row in rows] == [
        ("7", "the cat, sat", "good"),
        ("9", "a dog", ""),
    ]
    assert "the input has a column `score` already; that of the predictions is `score_2`" in said.text
    predict(file="in.csv", model=model, output="only.csv", only_predictions=True)
    assert list(read_csv("only.csv")[0])[:2] == ["prediction", "score"]
    Path("in.csv").write_text("id;text\n7;the cat, sat\n")
    predict(file="in.csv", model=model, output="out.csv")
    assert Path("out.csv").read_text().startswith("id;text;prediction;score;")
    predict(file="in.csv", model=model, output="out.tsv")
    assert Path("out.tsv").read_text().startswith("id\ttext\tprediction\tscore\t")
    Path("in.jsonl").write_text('{"text": "the cat", "tags": ["x", "y"], "label": 1}\n{"text": "a dog"}\n')
    predict(file="in.jsonl", model=model, output="out.jsonl")
    first, second = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    assert list(first) == ["text", "tags", "label", "prediction", "score", "scores"]
    assert first["tags"] == ["x", "y"]
    assert second["tags"] is None
    assert second["prediction"] in LABELS
    assert predict(file="in.jsonl", model=model, output="-").records == [first, second]
    assert "label" in predict(file="in.jsonl", model=model, output="-", only_predictions=True).records[0]
    Path("in.csv").write_text("text,id\nthe cat,7\n", encoding="utf-8-sig")  # as Excel writes it
    predict(file="in.csv", output="out.csv", model=model)
    assert Path("out.csv").read_bytes().startswith(b"\xef\xbb\xbftext,id,prediction,")


def test_a_pipe_needs_no_file_option(workspace: Path, model: str) -> None:
    command = [sys.executable, "-m", "bertcli", "predict", "--model", model]
    done = subprocess.run(command, input="the cat\n\na dog\n", capture_output=True, text=True)
    assert [json.loads(line)["label"] in LABELS for line in done.stdout.splitlines()] == [True] * 3
    assert "standard input: 1 of 3 rows have no text; the first is `standard input` line 2" in done.stderr
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 2
    assert "There is no input." in done.stderr


def test_fills_of_a_file_have_their_probabilities_in_csv_too(at_home: Path, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("the [MASK] sat\n[MASK] and [MASK]\n")
    options = {"file": str(tmp_path / "in.txt"), "model": "runs/pretrain-tiny", "top_k": 2}
    predict(**options, output=str(tmp_path / "out.csv"))
    found = [json.loads(row["fills"]) for row in read_csv(tmp_path / "out.csv")]
    assert found == [record["fills"] for record in predict(**options).records]
    assert [len(fills) for fills in found] == [2, 4]


@pytest.mark.skipif(torch.cuda.is_available(), reason="is for a machine without a GPU")
def test_a_mask_is_filled_in_the_precision_asked_for(at_home: Path) -> None:
    options = {"text": "the [MASK] sat", "model": "runs/pretrain-tiny", "top_k": 5}
    exact, half = (
        [fill["score"] for fill in predict(**options, precision=name).records[0]["fills"]]
        for name in ("float32", "bfloat16")
    )
    assert half == pytest.approx(exact, abs=0.02)
    assert half != exact
    with pytest.raises(UserError, match="--precision float16 needs a GPU"):
        predict(**options, precision="float16")


def test_a_line_without_a_mask_is_named_and_what_came_before_it_stays(at_home: Path, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("the [MASK] sat\nthe cat\n")
    options = {"file": str(tmp_path / "in.txt"), "model": "runs/pretrain-tiny"}
    with pytest.raises(UserError, match=r"in.txt` line 2 has no \[MASK\] in it"):
        predict(**options, output=str(tmp_path / "out.jsonl"))
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 1


def test_masks_of_many_texts_are_filled_as_those_of_one(at_home: Path, tmp_path: Path) -> None:
    texts = ["the [MASK] sat", "[MASK]", "a dog and [MASK] cat on the [MASK]", "the cat [MASK] on the mat today"]
    (tmp_path / "in.txt").write_text("\n".join(texts))
    options = {"model": "runs/pretrain-tiny", "precision": "float32"}
    together = predict(file=str(tmp_path / "in.txt"), **options).records
    for text, record in zip(texts, together, strict=True):
        for one, other in zip(predict(text=text, **options).records[0]["fills"], record["fills"], strict=True):
            assert one == {**other, "score": pytest.approx(other["score"], abs=1e-5)}


@pytest.mark.usefixtures("chunks_of_three")
def test_empty_lines_and_cut_inputs_of_a_file_are_said_once(workspace: Path, model: str, said: LogCapture) -> None:
    Path("in.txt").write_text("\n".join(["the cat", "", "the dog " * 100] * 4) + "\n")
    assert len(predict(file="in.txt", model=model).records) == 12
    assert said.text.count("in.txt: 4 of 12 rows have no text; the first is `in.txt` line 2") == 1
    assert said.text.count("4 inputs longer than the model takes, cut") == 1


def test_the_run_that_learnt_as_many_texts_is_taken(workspace: Path, model: str) -> None:
    for name, second in (("alone", None), ("pairs", "reply")):
        shutil.copytree(model, f"runs/{name}")
        config = RunFolder(Path(f"runs/{name}")).config | {"text_pair": second}
        Path(f"runs/{name}/config.yaml").write_text(yaml.safe_dump(config))
    assert predict("the cat").model == "runs/alone/model"
    assert predict("the cat", text_pair="sat").model == "runs/pairs/model"
    shutil.rmtree("runs/alone")
    with pytest.raises(UserError, match="no finished run for one text in this folder: runs/pairs takes pairs of texts"):
        predict("the cat")


def test_the_first_of_a_column_of_texts_is_not_taken_for_its_name(workspace: Path, model: str) -> None:
    Path("in.csv").write_text("the cat sat on a mat\nthe dog\n")
    with pytest.raises(UserError, match="no column `text`") as caught:
        predict(file="in.csv", model=model)
    assert "Put a header line" in caught.value.hint
    Path("in.csv").write_text("words\nthe dog\n")
    assert len(predict(file="in.csv", model=model).records) == 1


def test_a_text_is_not_the_second_of_its_own_pair(workspace: Path, model: str) -> None:
    Path("in.csv").write_text("sentence,id\nthe cat,1\n")
    shutil.copytree(f"{model}/model", "plain")  # which does not know its columns
    pair = predict(file="in.csv", model="plain").records[0]["scores"]
    assert pair == pytest.approx(predict("the cat", model=model).records[0]["scores"], abs=1e-5)


def test_inputs_and_older_predictions_are_not_written_over(workspace: Path, model: str) -> None:
    Path("in.csv").write_text("text\nthe cat\n")
    with pytest.raises(UserError, match=r"`in.csv` holds the inputs"):
        predict(file="in.csv", model=model, output="in.csv")
    Path("out.csv").write_text("older")
    Path("bad.csv").write_text("text\na,b\n")
    with pytest.raises(UserError, match=r"`bad.csv` line 2"):
        predict(file="bad.csv", model=model, output="out.csv")
    assert Path("out.csv").read_text() == "older"
    Path("broken.csv").symlink_to("gone/out.csv")
    with pytest.raises(UserError, match=r"`broken.csv` is a link that leads nowhere"):
        predict(file="in.csv", model=model, output="broken.csv")


def test_a_terminal_gets_a_table_and_everything_else_json_lines(
    workspace: Path, model: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("in.txt").write_text("the cat\na dog\n")
    arguments = ["predict", "--file", "in.txt", "--model", model]
    code, piped, _ = run(arguments, capsys, monkeypatch)
    assert [json.loads(line)["label"] in LABELS for line in piped.splitlines()] == [True, True]
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    asked = run([*arguments, "--output", "-", "--only-predictions"], capsys, monkeypatch)
    assert asked[:2] == (code, piped) == (0, piped)
    _, whole, _ = run([*arguments, "--output", "-"], capsys, monkeypatch)
    assert [json.loads(line)["text"] for line in whole.splitlines()] == ["the cat", "a dog"]
    _, table, _ = run(arguments, capsys, monkeypatch)
    assert "label" in table.splitlines()[1]
    assert "{" not in table


@pytest.mark.parametrize(
    ("task", "version"), [pytest.param("squad", "1", marks=pytest.mark.torture), ("squad_v2", "2")]
)
def test_a_split_of_squad_is_predicted_into_its_official_files(
    home: Path, workspace: Path, task: str, version: str, said: LogCapture
) -> None:
    folder = workspace / "data" / "squad"
    folder.mkdir(parents=True)
    for split in ("train", "dev"):
        file = folder / f"{split}-v{version}.{2 - int(version)}.json"
        shutil.copy(GOLDENS / "squad" / f"data_v{version}.json", file)
    start = str(home / "runs" / "pretrain-tiny")
    learnt = Path(finetune(task, data_dir="data", from_=start, epochs=1, limit=16, max_seq_length=128).run)
    result = predict(task=task)
    assert f"model: {learnt} (the only run that fits)" in said.text
    assert result.to_json() == {
        "model": f"{learnt}/model",
        "kind": "span",
        "count": 59 if version == "2" else 48,
        "output": "predictions.json",
        "records": [],
    }
    for name in ("predictions.json", "nbest_predictions.json", *(["null_odds.json"] if version == "2" else [])):
        assert Path(name).read_bytes() == (learnt / name).read_bytes()
    predict(task=task, output="mine.json", model=str(learnt))
    assert Path("mine.json").read_bytes() == Path("predictions.json").read_bytes()
    assert Path("mine-null_odds.json").exists() == Path("null_odds.json").exists() == (version == "2")
    given = {"predictions": "mine.json", **({"na_probs": "mine-null_odds.json"} if version == "2" else {})}
    assert evaluate(task, data_dir="data", **given).metrics == evaluate(task).metrics


def test_an_answer_is_placed_among_the_characters_of_its_own_words(home: Path, tmp_path: Path) -> None:
    file = shutil.copy(GOLDENS / "squad" / "data_v1.json", tmp_path / "mine.json")
    start = str(home / "runs" / "pretrain-tiny")
    model = finetune(str(file), from_=start, out=str(tmp_path / "run"), epochs=1, limit=16, max_seq_length=128).run
    draw = random.Random(0)
    words = [draw.choices(["the", "(cat)", "sat."], k=12) for _ in range(20)]
    spaced = ["\n" + "".join(word + draw.choice([" ", "\n", "\t ", "  ", "\r\n"]) for word in own) for own in words]
    contexts = [*map(" ".join, words), *spaced]
    write_lines(tmp_path / "in.jsonl", [json.dumps({"question": "who", "context": context}) for context in contexts])
    found = []
    for context, record in zip(contexts, predict(file=str(tmp_path / "in.jsonl"), model=model).records, strict=True):
        place = slice(record["start"], record["end"])
        assert context[place].split() == record["answer"].split()
        found.append((record["answer"], split_words(context)[1][place]))
    assert [answer for answer, _ in found[:20]] == [answer for answer, _ in found[20:]]
    firsts, others = ([place[0] for _, place in half] for half in (found[:20], found[20:]))
    assert firsts == others
    assert len(set(firsts)) > 1


def test_a_split_of_another_task_is_predicted_as_a_file_is(home: Path, workspace: Path) -> None:
    folder = workspace / "data" / "glue" / "CoLA"
    folder.mkdir(parents=True)
    for split in ("train", "dev"):
        write_lines(folder / f"{split}.tsv", [f"gj04\t{row % 2}\t\tthe {word}" for row, word in enumerate(WORDS)])
    write_lines(folder / "test.tsv", ["index\tsentence", *(f"{row}\tthe {word}" for row, word in enumerate(WORDS))])
    finetune("cola", data_dir="data", from_=str(home / "runs" / "pretrain-tiny"), epochs=1)
    predict(task="CoLA", split="test", output="out.csv")
    rows = read_csv("out.csv")
    assert len(rows) == len(WORDS)
    assert list(rows[0]) == ["prediction", "score", "score_unacceptable", "score_acceptable"]


def test_the_newest_run_that_fits_both_columns_and_kind_is_taken(
    home: Path, workspace: Path, said: LogCapture, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("mood.csv").write_text("text,label\n" + "the cat,good\nthe dog,bad\n" * 9)
    Path("ends.csv").write_text("text,ending0,ending1,label\n" + "the cat,sat,ran,0\nthe dog,sat,ran,1\n" * 9)
    for file in ("mood.csv", "ends.csv"):
        finetune(file, from_=str(home / "runs" / "pretrain-tiny"), epochs=0.001)
    Path("in.csv").write_text("text\nthe cat\n")
    assert predict(file="in.csv").model == "runs/mood/model"
    give_stdin(monkeypatch, '{"text": "the cat"}\n')
    assert predict(file="-").model == "runs/mood/model"
    Path("in.jsonl").write_text('{"text": "the cat", "choices": ["sat", "ran"]}\n')
    assert predict(file="in.jsonl").model == "runs/ends/model"
    Path("in.txt").write_text("the cat\nthe [MASK]\n")
    predict(file="in.txt")
    assert (
        "in.txt: 1 of 2 rows have [MASK], which is not filled, as the first has none (fill them alone: bert"
        in said.text
    )
    said.clear()
    predict(file="in.txt", model="runs/mood")
    assert "[MASK]" not in said.text


def test_a_single_text_for_a_model_of_pairs_and_the_reverse_are_said(
    home: Path, workspace: Path, model: str, said: LogCapture
) -> None:
    Path("own.csv").write_text("prem,hyp,same\n" + "the cat,a cat,yes\nthe dog,a cat,no\n" * 9)
    columns = {"text": "prem", "text_pair": "hyp", "label": "same"}
    pairs = finetune("own.csv", from_=str(home / "runs" / "pretrain-tiny"), epochs=0.001, out="pairs", **columns).run
    of_task = Path(shutil.copytree(pairs, "of_task"), "config.yaml")
    of_task.write_text(of_task.read_text().replace("task: own.csv", "task: glue/mnli"))
    for name in (pairs, "of_task"):
        predict("the cat", model=name)
        assert f"1 of 1 inputs have no second text, and {name}/model learnt from pairs" in said.text
    Path("in.csv").write_text("text\nthe cat\na dog\n")
    predict(file="in.csv", model=pairs)
    words = "in.csv: 2 of 2 rows have no second text, and pairs/model learnt from pairs; the first is `in.csv` line 2"
    assert words in said.text
    predict("the cat", text_pair="a dog", model=model)
    assert f"1 of 1 inputs have a second text, and {model}/model learnt from one text" in said.text
    said.clear()
    predict("the cat", text_pair="a dog", model=pairs)
    predict("the cat", model=model)
    shutil.copytree(f"{pairs}/model", "plain")
    predict("the cat", model="plain")
    assert "second text" not in said.text
    Path("in.csv").write_text("a,b\nthe cat,a dog\n")
    with pytest.raises(UserError, match=r"`in.csv` has no column `prem` and no `hyp`") as caught:
        predict(file="in.csv", model=pairs)
    assert "needed: prem, hyp" in caught.value.hint
    Path("in.csv").write_text("prem\nthe cat\n")
    with pytest.raises(UserError, match=r"`in.csv` has no column `hyp`"):
        predict(file="in.csv", model=pairs)


@pytest.mark.parametrize(
    ("name", "text", "message", "hint"),
    [
        ("a.json", '{"version": 1, "data": [{"paragraphs": []}]}', "has no questions", "form of SQuAD"),
        ("a.json", '{\n"data": [\n{\n"paragraphs": []}]}', "has no questions", "form of SQuAD"),
        ("a.tsv", "gj04\t1\t\tthe cat sat on it\n" * 2, "no column `text`", "Put a header line"),
        ("a.csv", "a,b\nx,y\n", "no column `text`", "Rename its columns, which are a, b"),
        ("a.txt", None, "There is no file `a.txt`", "--file"),
    ],
)
def test_a_file_that_cannot_be_predicted_says_what_can(
    workspace: Path, name: str, text: str | None, message: str, hint: str
) -> None:
    if text:
        Path(name).write_text(text)
    with pytest.raises(UserError, match=message) as caught:
        predict(file=name)
    assert hint in caught.value.hint
    assert "bert tasks" not in caught.value.hint


def test_a_mask_is_spelled_in_one_way_and_stands_in_one_text(at_home: Path) -> None:
    for inputs in ({"text": "the <mask> sat"}, {"text": "the [MASK] sat", "text_pair": "a dog"}):
        with pytest.raises(
            UserError, match=r"a text with \[MASK\] in it \(so spelled for every model\), and no second"
        ):
            predict(**inputs, model="runs/pretrain-tiny")


def test_what_a_task_does_not_go_with_is_said(workspace: Path) -> None:
    with pytest.raises(UserError, match="squad is a task, which has its own texts"):
        predict("the cat", task="squad")
    with pytest.raises(UserError, match=r"`in.csv` is not a task") as caught:
        predict(task="in.csv")
    assert "--file in.csv" in caught.value.hint
    with pytest.raises(UserError, match="no finished run of glue/mnli"):
        predict(task="ax")


@pytest.mark.slow
def test_a_reader_that_goes_away_ends_it_quietly(workspace: Path, model: str) -> None:
    Path("in.txt").write_text("the cat\n" * 20_000)
    command = [sys.executable, "-m", "bertcli", "predict", "--file", "in.txt", "--model", model, "--quiet"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)}
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b'{"label"')
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert process.returncode == 0


@pytest.mark.usefixtures("float32")
def test_in_bfloat16_labels_stay_and_scores_hardly_change(
    model: str, expected: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_lines(tmp_path / "texts.txt", list(expected))
    found = [r["scores"] for r in predict(file=str(tmp_path / "texts.txt"), model=model, precision="bfloat16").records]
    assert found != list(expected.values())
    for scores, wanted in zip(found, expected.values(), strict=True):
        assert scores == pytest.approx(wanted, abs=0.02)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(device, "_cpu_has_bfloat16", lambda: True)
    assert [device.training_precision("auto", size) for size in (128, 256)] == ["float32", "bfloat16"]
    assert device.resolve_precision("auto") == "float32"


def test_a_cpu_without_avx_512_predicts_in_bfloat16_too_and_says_once_how_slowly(
    model: str, expected: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: LogCapture
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for module in (kernels, device):
        monkeypatch.setattr(module, "multiplies_bfloat16", lambda: False)
    device._say_emulated.cache_clear()
    write_lines(tmp_path / "texts.txt", list(expected))
    for _ in range(2):
        records = predict(file=str(tmp_path / "texts.txt"), model=model, precision="bfloat16").records
        for record, scores in zip(records, expected.values(), strict=True):
            assert record["scores"] == pytest.approx(scores, abs=0.02)
    assert said.text.count("only emulates bfloat16") == 1


def test_missing_texts_of_rows_are_empty_and_questions_need_a_context(said: LogCapture) -> None:
    assert [row["text"] for row in inputs_of([{"text": None}, {"text": 3}, {"text": float("nan")}]).rows] == [
        "",
        "3",
        "",
    ]
    assert "2 of 3 inputs have no text" in said.text
    assert [row["text"] for row in inputs_of(["the cat", None]).rows] == ["the cat", ""]
    for row in ({"question": "who"}, {"text": "a", "choices": []}, {"text": "a", "choices": "ab"}):
        with pytest.raises(UserError, match="no context, or a row has no choices"):
            inputs_of([row])
    with pytest.raises(UserError, match="numbers of choices"):
        inputs_of([{"text": "a", "choices": ["b", "c"]}, {"text": "a", "choices": ["b", "c", "d"]}])


def test_the_questions_of_a_file_in_squads_form_are_rows(workspace: Path) -> None:
    asked = [{"id": str(number), "question": f"who {number}?", "answers": []} for number in range(2)]
    article = {"paragraphs": [{"context": "the cat", "qas": asked}]}
    Path("own.json").write_text(json.dumps({"data": [article]}))
    rows = [*read_inputs(PredictConfig(file="own.json")).rows]
    assert [(row["question"], row["context"], row["columns"]["id"]) for row in rows] == [
        ("who 0?", "the cat", "0"),
        ("who 1?", "the cat", "1"),
    ]


def test_the_rows_of_a_data_frame_are_the_input_not_its_columns() -> None:
    pandas = pytest.importorskip("pandas")
    inputs = inputs_of(pandas.DataFrame({"text": ["the cat", "a dog"], "text_pair": ["a cat", "a cat"]}))
    assert inputs.form == "pair"
    assert [row["text"] for row in inputs.rows] == ["the cat", "a dog"]
    with pytest.raises(UserError, match="A table in memory is no file") as caught:
        FinetuneConfig.build(pandas.DataFrame({"text": ["the cat"], "label": ["a"]}), {})
    assert "to_csv" in caught.value.hint
    with pytest.raises(UserError, match="or no text"):
        inputs_of(Path("rows.csv"))


def test_a_table_without_a_name_is_not_read_as_texts(
    workspace: Path, model: str, monkeypatch: pytest.MonkeyPatch, said: pytest.LogCaptureFixture
) -> None:
    for header in ("id,text", "sentence\tlabel"):
        give_stdin(monkeypatch, f"{header}\n1,the cat\n")
        with pytest.raises(UserError, match="Standard input begins like a table"):
            predict(file="-", model=model)
    give_stdin(monkeypatch, "the cat, a dog\nthe text\n")
    assert len(predict(file="-", model=model).records) == 2
    assert "header" not in said.text
    give_stdin(monkeypatch, "Text\nthe cat\n")
    assert len(predict(file="-", model=model).records) == 2
    assert "line 1 is `Text`, as a header would be; it is predicted like the other lines" in said.text


def test_a_mapping_is_one_row_and_a_name_of_a_file_is_no_text(workspace: Path) -> None:
    assert [row["text"] for row in inputs_of({"text": "the cat"}).rows] == ["the cat"]
    Path("in.csv").write_text("text\nthe cat\n")
    for name in ("in.csv", Path("in.csv")):
        with pytest.raises(UserError, match=r"`in.csv` is a file") as caught:
            predict(name)
        assert 'predict(file="in.csv")' in caught.value.hint


def test_options_without_effect_are_refused(workspace: Path, model: str) -> None:
    with pytest.raises(UserError, match="fills no \\[MASK\\], so --top-k has no effect"):
        predict("the cat", model=model, top_k=3)
    with pytest.raises(UserError, match="--only-predictions needs --output"):
        predict("the cat", model=model, only_predictions=True)
    with pytest.raises(UserError, match="--model is empty"):
        predict("the cat", model="")


@pytest.mark.parametrize("rows", [[None], ["the cat", 3], [{"review": "a dog"}], [], {"text": ["the cat", "a dog"]}])
def test_rows_that_are_no_input_are_refused(rows: list[object]) -> None:
    with pytest.raises(UserError, match=r"different keys or numbers of choices, or no text|no input"):
        inputs_of(rows)


def test_the_columns_of_the_input_are_kept_to_the_letter_and_lists_of_words_are_texts(
    tmp_path: Path, reviews_run: str
) -> None:
    for name, between in (("in.csv", ","), ("in.tsv", "\t")):
        rows = [["code", "text"], [" 007", " the cat "], ["1", "  sat"]]
        Path(tmp_path / name).write_text("".join(f"{between.join(row)}\n" for row in rows))
        predictions = predict(file=str(tmp_path / name), model=reviews_run, output=str(tmp_path / f"out-{name}"))
        assert len(predictions.records) in (0, 2)
        kept = [line.split(between)[:2] for line in (tmp_path / f"out-{name}").read_text().splitlines()]
        assert kept == rows
    (tmp_path / "spaced.csv").write_text('code, text\n1, "the cat, the dog"\n')
    assert read_table(tmp_path / "spaced.csv").cells == [{"code": "1", "text": "the cat, the dog"}]
    (tmp_path / "words.jsonl").write_text('{"tokens": ["the", "cat"]}\n')
    (listed,) = predict(file=str(tmp_path / "words.jsonl"), model=reviews_run).records
    (whole,) = predict("the cat", model=reviews_run).records
    assert listed["scores"] == pytest.approx(whole["scores"], abs=1e-5)


def test_rows_given_in_python_are_written_where_a_file_is_asked_for(tmp_path: Path, reviews_run: str) -> None:
    found = predict(["the cat", "the dog"], model=reviews_run, output=str(tmp_path / "two.csv"))
    assert (found.count, found.output) == (2, str(tmp_path / "two.csv"))
    assert len(read_table(tmp_path / "two.csv")) == 2
    with pytest.raises(UserError, match="is not CSV, TSV or JSONL"):
        predict(["the cat"], model=reviews_run, output=str(tmp_path / "two.txt"))


def test_words_with_or_without_tags_are_tagged_as_they_are_parted(home: Path, workspace: Path) -> None:
    Path("train.conll").write_text("the\tO\nU.S.\tB-X\ncat\tI-X\nsat\tO\n\n" * 20)
    run = finetune("train.conll", from_=str(home / "runs" / "pretrain-tiny"), epochs=8, learning_rate=3e-3)
    Path("new.conll").write_text("-DOCSTART-\n\nthe\nU.S.\ncat\n\nsat\n")
    Path("new.jsonl").write_text('{"tokens": ["the", "U.S.", "cat"]}\n{"tokens": ["sat"]}\n')
    for name in ("train.conll", "new.conll", "new.jsonl"):
        first, *_ = predict(file=name, model=run.run).records
        assert first["tags"] == ["O", "B-X", "I-X"] + ["O"] * (name == "train.conll")
        assert [(each["text"], each["start"]) for each in first["entities"]] == [("U.S. cat", 4)]
    assert "it reads longer ones in windows" in Path(run.run, "README.md").read_text()
    predict(file="train.conll", model=run.run, output="tagged.jsonl")
    assert evaluate("tagged.jsonl", model=run.run).metrics["f1"] == 100
    assert read_table(Path("tagged.jsonl")).cells[0]["gold_tags"] == ["O", "B-X", "I-X", "O"]
    Path("wrong.jsonl").write_text('{"tokens": ["the", "U.S.", "cat", "sat"], "tags": ["B-X", "O", "O", "O"]}\n')
    predict(file="wrong.jsonl", model=run.run, output="beside.jsonl")
    assert evaluate("wrong.jsonl", predictions="beside.jsonl").metrics["f1"] == 0  # not of the right tags beside them
    assert "tags" not in predict("the U.S. cat", model=run.run).records[0]


def test_a_model_without_a_head_is_refused_before_torch_is_imported(workspace: Path) -> None:
    Path("plain").mkdir()
    Path("plain/config.json").write_text('{"model_type": "bert", "architectures": ["BertModel"]}')
    program = (
        "import sys; from bertcli.cli.main import main; sys.argv = 'bert predict --text hello --model plain'.split()\n"
        "try: main()\nfinally: print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (2, "False")
    assert "--from plain; or give another --model" in done.stderr


def test_rows_and_a_file_do_not_go_together(reviews_run: str) -> None:
    with pytest.raises(UserError, match="Rows and `file` do not go together"):
        predict(["the cat"], file="reviews.csv", model=reviews_run)


def test_a_table_with_two_texts_is_for_a_run_of_pairs_and_a_run_without_weights_for_nothing(
    workspace: Path, said: LogCapture
) -> None:
    rows = "".join(f"film {row % 2},{'no' * (row % 2)} words,{row % 2}\n" for row in range(40))
    Path("pairs.csv").write_text(f"text,text_pair,label\n{rows}")
    Path("films.csv").write_text("text,label\n" + "".join(f"film {row % 2},{row % 2}\n" for row in range(40)))
    pairs, films = baseline("pairs.csv").run, baseline("films.csv").run
    predict(file="pairs.csv")
    assert f"model: {pairs} (a baseline, the only run that fits)" in said.text
    predict(file="films.csv")
    assert f"model: {films} (a baseline, the only run that fits)" in said.text
    (Path(films) / "model" / "fitted.safetensors").unlink()
    with pytest.raises(UserError, match="no finished run for"):
        predict(file="films.csv")


def test_a_run_that_was_trained_on_a_column_of_the_file_comes_before_one_for_any_text(
    workspace: Path, said: LogCapture
) -> None:
    Path("films.csv").write_text(
        "id,review,stars\n" + "".join(f"{row},film {row % 2},{row % 2}\n" for row in range(40))
    )
    Path("words.conll").write_text("EU B-ORG\nsent O\n\nPeter B-PER\nwent O\n\n" * 10)
    films, words = baseline("films.csv").run, baseline("words.conll").run
    assert set(predict(file="films.csv").rows[0]) >= {"prediction", "score"}
    assert f"model: {films} (a baseline, the only run that fits)" in said.text
    assert "entities" in predict("EU sent Peter", model=words).records[0]


def test_the_index_of_pandas_stays_in_the_output(workspace: Path) -> None:
    Path("films.csv").write_text("review,stars\n" + "".join(f"film {row % 2},{row % 2}\n" for row in range(40)))
    baseline("films.csv")
    Path("new.csv").write_text(",review\n7,film 1\n9,film 0\n")
    predict(file="new.csv", output="answers.csv")
    header, *rows = (line.split(",")[:3] for line in Path("answers.csv").read_text().splitlines())
    assert [header, *rows] == [["", "review", "prediction"], ["7", "film 1", "1"], ["9", "film 0", "0"]]
