"""Several labels of a text, from files to predictions."""

import json
import random
from pathlib import Path

import pytest
from transformers import BertForSequenceClassification

from bertcli.data.labelled.own_labels import split_labels
from bertcli.errors import UserError
from bertcli.lifecycle.baseline import baseline
from bertcli.lifecycle.evaluate import evaluate
from bertcli.lifecycle.finetune import finetune
from bertcli.lifecycle.predict import predict
from bertcli.lifecycle.sources import find_source

LEARNING = {"epochs": 6, "batch_size": 8, "learning_rate": 2e-3}


def test_several_labels_are_learnt_scored_and_predicted(at_home: Path, tmp_path: Path) -> None:
    draw = random.Random(1)
    names = {"cat": "animal", "dog": "animal", "tree": "plant", "garden": "plant"}
    lines = ["text,tags"]
    for _ in range(240):
        words = draw.choices([*names, *["the", "old"] * 2], k=3)
        lines.append(f"{' '.join(words)},{'; '.join(sorted({names[word] for word in words if word in names}))}")
    file = tmp_path / "several.csv"
    file.write_text("\n".join(lines) + "\n")
    run = finetune(str(file), label="tags", kind="multilabel", out=str(tmp_path / "run"), **{**LEARNING, "epochs": 5})
    assert list(run.metrics) == ["micro_f1", "macro_f1", "subset_accuracy"]
    assert run.metrics["micro_f1"] > 80
    config = BertForSequenceClassification.from_pretrained(run.model).config
    assert (config.problem_type, config.id2label) == ("multi_label_classification", {0: "animal", 1: "plant"})
    both, none = (predict(text, model=run.run).records[0] for text in ("the cat tree", "the old the"))
    assert both["labels"] == ["animal", "plant"]
    assert none["labels"] == []
    other = file.rename(tmp_path / "other.csv")
    scored = evaluate(str(other), model=run.run)
    assert scored.examples == 240  # those without a label too
    predict(file=str(other), model=run.run, output=str(tmp_path / "out.csv"))
    again = evaluate(str(other), model=run.run, predictions=str(tmp_path / "out.csv"))
    assert again.metrics == scored.metrics


@pytest.mark.parametrize(
    ("cell", "separator", "labels"),
    [
        ('["a, b", "c"]', "", ["a, b", "c"]),
        ("['a', 3]", "", ["a", "3"]),
        ("[]", "", []),
        ("['a b' 'c']", "", ["a b", "c"]),
        ("a|b | c", "|", ["a", "b", "c"]),
        ("", "|", []),
    ],
)
def test_several_labels_are_a_list_or_have_separators(cell: str, separator: str, labels: list[str]) -> None:
    assert split_labels(cell, separator) == labels


def test_labels_may_be_lists_in_json(workspace: Path) -> None:
    rows = [{"text": "x", "labels": ["a", "b, c"]}, {"text": "y", "labels": []}, {"text": "z", "labels": ["a"]}]
    Path("mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = find_source("mine.jsonl", None, {})
    assert source.task.kind == "multilabel"
    assert (source.task.labels, source.task.files.label_form) == (("a", "b, c"), "")
    with pytest.raises(UserError, match="which is not a valid list"):
        split_labels("[a", "")
    rows[2]["labels"] = "a"  # a single one without brackets
    Path("mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert find_source("mine.jsonl", None, {}).task.labels == ("a", "b, c")
    Path("names.csv").write_text("text,label\nx,good\ny,[other]\nz,bad\n")  # a name in brackets is no list
    assert find_source("names.csv", None, {}, scored="dev").task.kind == "classify"


def test_labels_are_separated_as_in_the_data_that_a_run_has_learnt_from(workspace: Path) -> None:
    names = ("food, drink", "travel", "money")
    lines = [f'about {names[row % 3].split(",")[0]},"{names[row % 3]}|more"' for row in range(30)]
    Path("several.csv").write_text("text,labels\n" + "\n".join(lines) + "\n")
    Path("single.csv").write_text("text,labels\n" + "\n".join(lines).replace("|more", "") + "\n")
    run = baseline("several.csv", kind="multilabel").run
    scored = evaluate("single.csv", model=[run])
    assert set(scored.labels) == {*names, "more"}
    assert "label form" not in Path(run, "report.html").read_text()  # it is no option
    assert all(scored.labels[name]["f1"] == 100 for name in names)
