"""Multiple choice, from its files to its predictions."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from support import use_card
from transformers import AutoModelForMultipleChoice, AutoTokenizer

from bertcli.data.labelled.examples import TextExamples
from bertcli.data.packing.text_features import encode_choices, encode_texts
from bertcli.data.text.tokenization import WordPiece
from bertcli.errors import UserError
from bertcli.kinds.own_tables import choice_columns
from bertcli.lifecycle.baseline import baseline
from bertcli.lifecycle.evaluate import evaluate
from bertcli.lifecycle.finetune import finetune
from bertcli.lifecycle.own_files import own_task
from bertcli.lifecycle.predict import predict
from bertcli.lifecycle.sources import find_source


def test_swags_choices_are_whole_sentences_after_the_first(home: Path, swag_run: Path) -> None:
    examples = find_source("swag", str(home / "official")).read("dev").examples
    assert examples.texts[0] == "The cat sat."
    assert all(choice.startswith("It ") for choice in examples.choices[0])
    assert examples.choices[0][int(examples.labels[0])] == "It happily, green garden"


def test_choices_are_numbered_by_their_names_in_any_order_of_columns() -> None:
    columns = choice_columns(["text", "choice_2", "choice_0", "choice_10", "choice_1"])
    assert [*columns.values()] == ["text", "choice_0", "choice_1", "choice_2", "choice_10"]
    assert [*choice_columns(["text", "option B", "option A"]).values()] == ["text", "option A", "option B"]
    assert [*choice_columns(["label", "ending0", "stem", "ending1"]).values()] == ["stem", "ending0", "ending1"]
    assert choice_columns(["label", "ending0", "stem", "ending1", "note"]) == {}


def test_each_choice_is_a_pair_with_its_text(google_tokenizer: WordPiece) -> None:
    choices = [["He reads.", "He flies away."], ["left.", "ran."]]
    examples = TextExamples(["A man sits.", "She"], choices=choices, origin="")
    features = encode_choices(examples, google_tokenizer, 8, None)
    pairs = TextExamples(["A man sits.", "A man sits.", "She", "She"], [*choices[0], *choices[1]], origin="")
    expected = encode_texts(pairs, google_tokenizer, 8, None)
    everything = np.arange(4)
    assert features.sequences.input_ids.take(everything)[0].tolist() == expected.input_ids.take(everything)[0].tolist()
    assert features.lengths.tolist() == [16, 12]
    assert features.truncated == expected.truncated == 2


@pytest.mark.usefixtures("float32")
def test_a_swag_model_is_found_scored_and_asked(home: Path, swag_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    scored = evaluate("SWAG")
    assert scored.metrics["accuracy"] > 80
    assert scored.paper == {"base accuracy": 81.6, "large accuracy": 86.6}
    again = evaluate("swag", data_dir="official", predictions=str(swag_run / "predictions.jsonl"))
    assert again.metrics == scored.metrics
    choices = ["It slowly under the tree", "It happily, green garden"]
    record = predict("The cat sat.", choice=choices).records[0]
    assert (record["choice"], record["text"]) == (1, choices[1])
    assert sum(record["scores"]) == pytest.approx(1, abs=1e-5)
    model, info = AutoModelForMultipleChoice.from_pretrained(swag_run / "model", output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    inputs = AutoTokenizer.from_pretrained(swag_run / "model")(
        ["The cat sat."] * 2, choices, return_tensors="pt", padding=True
    )
    theirs = model.eval()(**{name: rows[None] for name, rows in inputs.items()}).logits[0]
    assert record["scores"] == pytest.approx(torch.softmax(theirs, -1).tolist(), abs=1e-5)


def test_a_file_of_choices_is_answered_in_its_order(
    home: Path, swag_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    file = tmp_path / "in.csv"
    file.write_text(
        "context,choice_a,choice_b\nThe cat,under mat,happily green garden\nA dog,happily green garden,under mat\n"
    )
    predict(file=str(file), output=str(tmp_path / "out.csv"))
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert lines[0] == "context,choice_a,choice_b,prediction,text,score,scores"
    assert [line.split(",")[3] for line in lines[1:]] == ["1", "0"]


@pytest.mark.parametrize(("labels", "first"), [("0 1 2", "0"), ("1 3 2", "1"), ("A C B", "A"), ("c a b", "a")])
def test_choices_of_an_own_file_may_be_counted_in_several_ways(workspace: Path, labels: str, first: str) -> None:
    rows = [f"p{row},x,y,z,{label}" for row, label in enumerate(labels.split())]
    Path("mine.csv").write_text("\n".join(["prompt,choice_0,choice_1,choice_2,answer", *rows]))
    task, _ = own_task("mine.csv", {}, None)
    assert (task.kind, task.labels, task.file_labels[0]) == ("choose", ("0", "1", "2"), first)
    assert find_source("mine.csv", None, {}).read("train").examples.choices[0] == ["x", "y", "z"]
    Path("labels.csv").write_text("\n".join(["label", *labels.split()]))
    assert evaluate("mine.csv", predictions="labels.csv").metrics == {"accuracy": 100}
    numbers = [task.file_labels.index(label) for label in labels.split()]
    Path("choices.jsonl").write_text("\n".join(json.dumps({"choice": number}) for number in numbers))
    assert evaluate("mine.csv", predictions="choices.jsonl").metrics == {"accuracy": 100}


def test_choices_may_stand_in_a_list(workspace: Path, swag_run: Path) -> None:
    rows = [
        {"ctx": f"p{row}", "choices": ["under mat", "happily green garden"], "answer": row % 2} for row in range(12)
    ]
    Path("mine.jsonl").write_text("\n".join(map(json.dumps, rows)))
    task, parts = own_task("mine.jsonl", {}, None)
    assert (task.kind, task.labels) == ("choose", ("0", "1"))
    assert parts["train"].choices[0] == ["under mat", "happily green garden"]
    run = finetune("mine.jsonl", from_=str(swag_run), epochs=1).run
    Path("new.jsonl").write_text(json.dumps({"ctx": "The cat", "choices": ["happily green garden", "under mat"]}))
    record = predict(file="new.jsonl", model=run).records[0]
    assert record["text"] == ["happily green garden", "under mat"][record["choice"]]
    swag = predict(file="new.jsonl", model=str(swag_run)).records[0]  # whose own columns have other names
    alone = predict(text="The cat", choice=["happily green garden", "under mat"], model=str(swag_run)).records[0]
    assert swag["scores"] == pytest.approx(alone["scores"], abs=1e-5)
    rows[3]["choices"] = ["one"]
    Path("mine.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(UserError, match="line 4 has 1 choices, the first row 2"):
        own_task("mine.jsonl", {}, None)


def test_a_choice_that_is_not_there_is_an_error(workspace: Path) -> None:
    Path("mine.csv").write_text("prompt,choice_0,choice_1,label\nx,a,b,0\ny,a,b,5\n")
    with pytest.raises(UserError, match="label `5`, which is none of 2 choices"):
        own_task("mine.csv", {}, None)


def test_the_use_that_its_card_shows_works(
    home: Path, swag_run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(home)
    assert "tensor(" in use_card(swag_run, monkeypatch, capsys)


def test_choices_count_as_those_that_a_run_has_learnt_from(workspace: Path, said: pytest.LogCaptureFixture) -> None:
    def write(name: str, first: str, numbers: range) -> str:
        lines = ["text,choice_0,choice_1,choice_2,answer"]
        for row in range(30):
            right = numbers[row % len(numbers)]
            choices = [f"the right word {row}" if right == place else f"no {row}" for place in range(3)]
            lines.append(f"Asked {row},{','.join(choices)},{chr(ord(first) + right)}")
        Path(name).write_text("\n".join(lines) + "\n")
        return name

    for first in "1A":
        run = baseline(write("train.csv", first, range(3)), label="answer").run
        few = write("few.csv", first, range(2))  # which might count from 0, too
        assert evaluate(few, model=[run]).metrics["accuracy"] == 100
        predict(file=few, output="few-answers.csv", model=run)
        with Path("few-answers.csv").open() as file:
            assert all(row["prediction"] == row["answer"] for row in csv.DictReader(file))
        assert evaluate(few, predictions="few-answers.csv", label="answer", model=[run]).metrics["accuracy"] == 100
        found = predict("Asked", choice=["no", "the right word"], model=run).records[0]
        assert (found["choice"], found["label"]) == (1, chr(ord(first) + 1))
