"""A real BERT starts from a head that is fitted to its frozen states, pooled as its folder says."""

import ast
import csv
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from transformers import AutoModel

from bertcli.config.recipes import recipes_folder
from bertcli.config.training import FinetuneConfig
from bertcli.data.labelled.official_files import read_columns
from bertcli.kinds.classification import CLASSIFICATION
from bertcli.kinds.multilabel import MULTILABEL
from bertcli.kinds.regression import REGRESSION
from bertcli.lifecycle.evaluate import evaluate
from bertcli.lifecycle.finetune import finetune
from bertcli.lifecycle.finetuning import before as before_finetuning
from bertcli.lifecycle.finetuning import run as finetuning
from bertcli.lifecycle.finetuning.before import advise
from bertcli.lifecycle.predict import predict
from bertcli.lifecycle.pretrained import MINILM
from bertcli.lifecycle.sources import find_source
from bertcli.models.loading import load_model

BANKING = recipes_folder() / "demo" / "banking77"
CLASSES = 5


@pytest.fixture
def questions(workspace: Path) -> str:
    """Eight questions of each of a few classes, and a test file of others."""
    found = read_columns(BANKING / "train.csv.xz", {"text": "text", "label": "category"})
    chosen = sorted(set(found.labels or []))[:CLASSES]
    rows: dict[str, list[list[str]]] = {label: [] for label in chosen}
    for text, label in zip(found.texts, found.labels or [], strict=True):
        if label in rows:
            rows[label].append([text, label])
    for name, part in (("train.csv", slice(8)), ("other.csv", slice(8, 18))):
        with Path(name).open("w", newline="") as file:
            csv.writer(file).writerows([["text", "label"], *(row for each in rows.values() for row in each[part])])
    return "train.csv"


def test_few_examples_are_all_trained_on_and_cross_validated(
    minilm: Path, questions: str, said: pytest.LogCaptureFixture
) -> None:
    with Path(questions).open(newline="") as file:
        rows = [*csv.reader(file)]
    with Path(questions).open("w", newline="") as file:
        csv.writer(file, delimiter=";").writerows(rows)
    run = finetune(questions, epochs=1, limit_dev=8)
    assert "no examples are held out of training, so --limit-dev has no effect" in said.text
    assert said.text.count("its columns are separated by `;`") == 1
    assert "40 examples are few, so all are trained on, and cross-validated" in said.text
    assert "starting from minilm" in said.text
    assert run.split == "cross_validated"
    assert run.metrics["accuracy"] > 70
    assert evaluate("other.csv").metrics["accuracy"] > 70
    remark = f"{run.run} was trained on these examples"
    assert remark not in said.text
    evaluate(questions)
    assert remark in said.text
    assert "All 40 examples were trained on" in Path(run.run, "README.md").read_text()
    assert "They are of the head on the frozen model; once" in Path(run.run, "report.html").read_text()
    assert re.search(
        r"its accuracy is \d+.\d \(\d+.\d to \d+.\d, as 40 examples tell\)", Path(run.run, "README.md").read_text()
    )
    assert predict("How do I activate my card?").records[0]["label"] == "activate_my_card"


def test_a_run_that_was_cut_short_keeps_its_cross_validated_scores(minilm: Path, questions: str) -> None:
    run = finetune(questions, epochs=1, out="run")
    Path("run", "result.json").unlink()
    again = finetune(questions, out="run", resume=True)
    assert again.metrics == run.metrics


def test_the_fitted_head_is_scored_first_and_kept_where_training_makes_it_worse(
    minilm: Path, questions: str, said: pytest.LogCaptureFixture
) -> None:
    Path("split").mkdir()
    Path(questions).rename("split/train.csv")
    Path("other.csv").rename("split/dev.csv")
    run = finetune("split", epochs=2, learning_rate=0.03)
    scores = [json.loads(line) for line in Path(run.run, "metrics.jsonl").read_text().splitlines()]
    steps = {line["step"]: line["metrics"]["accuracy"] for line in scores if "metrics" in line}
    assert run.best_step == 0
    assert run.metrics["accuracy"] == steps[0] > 70 > steps[run.steps]
    assert evaluate("split/dev.csv", model=run.run).metrics["accuracy"] == pytest.approx(steps[0])
    assert any("No training was better than the head" in note for note in run.notes)


def test_a_dev_set_is_held_out_where_it_is_needed(minilm: Path, questions: str) -> None:
    assert finetune(questions, epochs=0.5, patience=1).split == "dev"


def test_the_mean_of_the_states_is_that_of_transformers_and_automodel_opens_the_bert(
    minilm: Path, questions: str
) -> None:
    run = finetune(questions, epochs=0.5, precision="float32", max_seq_length=32)
    saved = json.loads(Path(run.model, "config.json").read_text())
    assert saved["classifier_pooling"] == "mean"
    plain, ours = AutoModel.from_pretrained(run.model), load_model(run.model)
    tokens = torch.tensor([[101, 2129, 2079, 1045, 102]])
    with torch.inference_mode():
        logits = ours.classifier(plain(tokens).last_hidden_state.mean(1))
    found = predict("how do i", model=run.run, precision="float32").records[0]["scores"]
    assert np.allclose(list(found.values()), torch.softmax(logits, 1)[0].numpy(), atol=1e-4)


def test_a_fitted_head_gives_the_probabilities_of_scikit_learn() -> None:
    draw = np.random.default_rng(0)
    states, targets = draw.normal(size=(60, 8)), draw.integers(0, 3, 60)
    weights, biases = CLASSIFICATION.fit_head(states, targets, 4, 1.0)
    logits = states @ weights.T + biases
    expected = LogisticRegression(max_iter=300, tol=1e-3).fit(states, targets).predict_proba(states)
    shares = np.exp(logits[:, :3]) / np.exp(logits[:, :3]).sum(1, keepdims=True)
    assert np.allclose(shares, expected, atol=1e-6)
    assert (logits.argmax(1) < 3).all()  # the fourth class has no examples


def test_heads_of_other_kinds_are_fitted_too() -> None:
    draw = np.random.default_rng(0)
    states = draw.normal(size=(200, 8))
    sets = (states[:, :3] > 0).astype(np.float32)
    weights, biases = MULTILABEL.fit_head(states, sets, 3, 10.0)
    assert ((states @ weights.T + biases > 0) == sets).mean() > 0.95
    values = (states[:, 0] * 3 + 1).astype(np.float32)
    weights, biases = REGRESSION.fit_head(states, values, 1, 100.0)
    assert np.allclose((states @ weights.T + biases)[:, 0], values, atol=0.01)


@pytest.mark.torture
def test_kinds_without_a_linear_head_start_from_it_too(minilm: Path, workspace: Path) -> None:
    Path("people.conll").write_text("the O\ncat B-PER\n\na O\ndog B-PER\n\n" * 9)
    Path("ends.csv").write_text("text,ending0,ending1,label\n" + "the cat,sat,ran,0\nthe dog,sat,ran,1\n" * 9)
    article = {"title": "", "paragraphs": [{"context": "the cat sat", "qas": []}] * 12}
    for number, paragraph in enumerate(article["paragraphs"]):
        answers = [{"text": "cat", "answer_start": 4}]
        question = {"id": str(number), "question": "who sat?", "answers": answers}
        article["paragraphs"][number] = {**paragraph, "qas": [question]}  # type: ignore[index, dict-item]
    Path("asked.json").write_text(json.dumps({"version": "1.1", "data": [article]}))
    for name in ("people.conll", "ends.csv", "asked.json"):
        assert finetune(name, from_="minilm", epochs=0.1).metrics


def test_the_run_is_described_in_six_lines_and_tried_without_writing(
    minilm: Path, questions: str, said: pytest.LogCaptureFixture
) -> None:
    finetune(questions, dry_run=True)
    lines = [record.getMessage() for record in said.records]
    plan = next(number for number, line in enumerate(lines, start=1) if "learning rate 0.0001, for 384 hidden" in line)
    assert plan <= 5
    assert lines[plan].startswith("example 1: [CLS] ")
    assert lines[plan + 1].startswith("answer 1: ")
    assert "nothing is written" in lines[-1]
    assert not Path("runs").exists()


def test_a_long_run_is_told_what_a_smaller_model_would_take(
    minilm: Path, home: Path, questions: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = find_source(questions, None)
    start = str(home / "runs" / "pretrain-tiny" / "model")
    setup = finetuning.Finetuning.prepare(FinetuneConfig(task=questions), source, start, [source.read("train")])
    plan = setup._plan()
    assert advise(setup, plan, 7200) == ""  # it is smaller than minilm
    tiny = replace(MINILM, parameters_of_layers=setup.model.num_parameters(exclude_embeddings=True) // 8)
    monkeypatch.setattr(before_finetuning, "MINILM", tiny)
    assert advise(setup, plan, 7200).startswith(
        "`--from minilm` would take about 15 min (in points beside the paper's base:"
    )
    assert advise(setup, plan, 600) == ""


def test_a_long_run_is_told_what_scoring_takes(home: Path, questions: str) -> None:
    source = find_source(questions, None)
    start = str(home / "runs" / "pretrain-tiny" / "model")
    splits = [source.read("train"), source.read("train")]
    setup = finetuning.Finetuning.prepare(FinetuneConfig(task=questions, epochs=3), source, start, splits)
    plan = setup._plan()
    assert advise(setup, plan, 7200) == ""  # about 0.3 of 1.3 is scoring
    setup = replace(setup, dev=[*setup.dev, *setup.dev, *setup.dev])
    assert advise(setup, setup._plan(), 7200) == (
        f"53 % of it to score {3 * len(splits[0]):,} dev examples 3 times: `--limit-dev 2000` scores fewer"
    )


def test_the_card_of_a_run_that_pools_shows_how_transformers_gives_the_same_answer(
    minilm: Path, questions: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = finetune(questions, epochs=1)
    card = Path(run.run, "README.md").read_text(encoding="utf-8")
    (python,) = re.findall(r"^```python\n(.*?)^```$", card, flags=re.DOTALL | re.MULTILINE)
    capsys.readouterr()
    exec(python.replace("print(", "print((").replace('["classifier.bias"])', '["classifier.bias"]).tolist()[0])'), {})
    logits = np.array(json.loads(capsys.readouterr().out))
    shares = np.exp(logits) / np.exp(logits).sum()
    (text,) = re.findall(r"\*\*tokenizer\((.*), return_tensors", python)
    (answer,) = predict(ast.literal_eval(text), model=run.run, precision="float32").records
    np.testing.assert_allclose(shares, list(answer["scores"].values()), atol=1e-4)
    assert "library_name: bertcli" in card  # or the Hub would show a pipeline of a head that is random
    assert "language:" not in card  # which nobody said
