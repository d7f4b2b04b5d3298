"""Each method learns what it can, and refuses what it cannot."""

import json
import random
from pathlib import Path

import numpy as np
import pytest

from bertcli import baseline, evaluate, predict
from bertcli.config.baselines import METHODS as CHOICES
from bertcli.data.labelled.examples import Sentences
from bertcli.errors import UserError
from bertcli.kinds.kind import Split
from bertcli.lifecycle.baselining.methods import METHODS
from bertcli.lifecycle.baselining.methods.word_features import WordFeatures, features_of
from bertcli.lifecycle.predictor import load_for_task
from bertcli.tasks.task import INPUT

NAMES, PLACES = ("Ada", "Bob", "Cleo", "Dan"), ("Rome", "Oslo", "Lima")


def write_pairs(path: Path, count: int = 120, seed: int = 0) -> Path:
    """Pairs that are alike, or not: no word alone tells which."""
    draw = random.Random(seed)
    rows = ["sentence1,sentence2,label"]
    for _ in range(count):
        first, other = draw.sample(["cats", "dogs", "birds", "cows"], 2)
        is_alike = draw.random() < 0.5
        rows.append(f"I like {first} a lot,we love {first if is_alike else other} too,{'yes' if is_alike else 'no'}")
    path.write_text("\n".join(rows) + "\n")
    return path


def write_tags(path: Path, count: int = 60) -> Path:
    draw = random.Random(0)
    lines = []
    for _ in range(count):
        lines += [f"{draw.choice(NAMES)} B-PER", "lives O", "in O", f"{draw.choice(PLACES)} B-LOC", "now O", ""]
    path.write_text("\n".join(lines) + "\n")
    return path


def write_questions(path: Path) -> Path:
    context = "It rained a lot in May. The old bridge was built by Ada Lovelace, in London. It stands today."
    asked = {"id": "1", "question": "Who was the old bridge built by?"}
    answers = [{"text": "Ada Lovelace", "answer_start": context.index("Ada")}]
    data = [{"paragraphs": [{"context": context, "qas": [{**asked, "answers": answers}]}]}]
    path.write_text(json.dumps({"version": "1.1", "data": data}))
    return path


@pytest.mark.parametrize("method", ["static-vectors", "bilstm"])
def test_pairs_are_compared(workspace: Path, method: str) -> None:
    if method == "static-vectors":
        pytest.importorskip("gensim", reason="needs pip install 'bertcli[vectors]'")
    Path("pairs").mkdir()
    write_pairs(Path("pairs/train.csv"))
    write_pairs(Path("pairs/dev.csv"), seed=1)
    options = {"epochs": 12, "batch_size": 8} if method == "bilstm" else {}
    run = baseline("pairs", method=method, **options)
    assert run.metrics["accuracy"] > 80
    assert evaluate("pairs").metrics == run.metrics
    found = predict([{"text": "I like cats a lot", "text_pair": "we love cats too"}])
    assert found.rows[0]["prediction"] == "yes"
    predict("I like cats a lot", model=run.run)  # without a second text, which is said


def test_word_vectors_are_a_function_of_text_and_seed_and_may_be_of_another_text(
    workspace: Path, said: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("gensim", reason="needs pip install 'bertcli[vectors]'")
    write_pairs(Path("pairs.csv"), 60)
    Path("text.txt").write_text("I like cats a lot\nwe love dogs too\n" * 20)
    options = {"method": "static-vectors", "vectors_text": ["text.txt"]}
    runs = [baseline("pairs.csv", **options) for _ in range(2)]
    files = [Path(run.model, "fitted.safetensors").read_bytes() for run in runs]
    assert files[0] == files[1]
    assert "9 word vectors, from 180 words of text.txt" in said.text
    Path("once.txt").write_text("no word occurs twice here\n")
    with pytest.raises(UserError, match="No word occurs 2 times"):
        baseline("pairs.csv", method="static-vectors", vectors_text=["once.txt"])


def test_an_lstm_predicts_values_in_the_unit_of_the_labels(workspace: Path) -> None:
    draw = random.Random(0)
    sizes = [draw.choice(["small", "large"]) for _ in range(80)]
    rows = [f"a {size} home,{(100_000 if size == 'small' else 220_000) + draw.randrange(9000)}" for size in sizes]
    Path("homes.csv").write_text("\n".join(["text,value", *rows]) + "\n")
    baseline("homes.csv", method="lstm", epochs=15, batch_size=4, learning_rate=0.005, out="run")
    small, large = (predict(f"a {word} home", model="run").rows[0]["prediction"] for word in ("small", "large"))
    assert 70_000 < small < 140_000
    assert 190_000 < large < 260_000


def test_an_lstm_is_the_same_for_the_same_seed_and_its_best_epoch_is_kept(workspace: Path) -> None:
    write_pairs(Path("pairs.csv"), 60)
    runs = [baseline("pairs.csv", method="lstm", epochs=3, seed=seed) for seed in (1, 1)]
    files = [Path(run.model, "fitted.safetensors").read_bytes() for run in runs]
    assert files[0] == files[1]
    lines = [json.loads(line) for line in Path(runs[0].run, "metrics.jsonl").read_text().splitlines()]
    scores = {line["step"]: line["metrics"]["accuracy"] for line in lines if "metrics" in line}
    assert scores[runs[0].best_step] == max(scores.values()) == runs[0].metrics["accuracy"]
    assert runs[0].steps == max(scores) == 6


@pytest.mark.parametrize("method", ["bag-of-words", "bilstm"])
def test_words_are_tagged(workspace: Path, method: str) -> None:
    if method == "bag-of-words":
        pytest.importorskip("pycrfsuite", reason="needs pip install 'bertcli[vectors]'")
    write_tags(Path("words.conll"))
    options = {"epochs": 12, "batch_size": 8} if method == "bilstm" else {}
    run = baseline("words.conll", method=method, **options)
    assert run.metrics["f1"] > 95
    assert evaluate("words.conll").metrics == run.metrics
    found = predict("Ada lives in Oslo now").records[0]["entities"]  # type: ignore[index]
    assert [(each["text"], each["label"]) for each in found] == [("Ada", "PER"), ("Oslo", "LOC")]


def test_the_crf_decodes_as_crfsuite_does(workspace: Path) -> None:
    pycrfsuite = pytest.importorskip("pycrfsuite", reason="needs pip install 'bertcli[vectors]'")
    draw, labels = random.Random(0), ("O", "B-PER", "I-PER")
    sentences = [[draw.choice([*NAMES, *PLACES]) for _ in range(draw.randint(1, 6))] for _ in range(60)]
    tags = [[draw.choice(labels) for _ in own] for own in sentences]
    trainer = pycrfsuite.Trainer(params={"c2": 1.0, "max_iterations": 20}, verbose=False)
    for own, given in zip(sentences, tags, strict=True):
        trainer.append([sorted(each) for each in features_of(own)], given)
    trainer.train("crf")
    tagger = pycrfsuite.Tagger()
    with tagger.open("crf"):
        found = tagger.info()
        features = sorted({name for name, _ in found.state_features})
        weights = np.array([[found.state_features.get((name, tag), 0) for tag in labels] for name in features])
        steps = np.array([[found.transitions.get((one, other), 0) for other in labels] for one in labels])
        task = INPUT.__class__("t", "tag", INPUT.files, INPUT.hub, ("f1",), labels)
        ours = WordFeatures(features, weights.astype("f4"), steps.astype("f4")).predict(
            task, Sentences(sentences, origin="")
        )
        for own, prediction in zip(sentences, ours, strict=True):
            seen = [sorted(each) for each in features_of(own)]
            assert prediction["tags"] == tagger.tag(seen)
            shares = [tagger.marginal(tag, place) for place, tag in enumerate(prediction["tags"])]
            assert prediction["scores"] == pytest.approx(shares, abs=1e-5)


def test_the_sliding_window_answers_from_the_sentence_that_the_question_is_about(workspace: Path) -> None:
    for split in ("train", "dev"):
        write_questions(Path(f"{split}.json"))
    run = baseline("train.json,dev.json")
    assert json.loads(Path(run.run, "predictions.json").read_text()) == {"1": "Ada Lovelace"}
    found = predict(question="Who was it built by?", context="Rain fell. It was built by Bob Moses. We left.")
    answer = next(iter(found.records))
    assert (answer["answer"], answer["start"]) == ("Bob Moses", 27)
    empty = predict(question="Who?", context=" ", model=run.run)
    assert next(iter(empty.records))["answer"] == ""


def test_a_method_that_has_nothing_for_a_kind_names_those_that_have(workspace: Path) -> None:
    write_questions(Path("train.json"))
    for method in ("majority", "static-vectors", "lstm"):
        with pytest.raises(UserError) as error:
            baseline("train.json", method=method)
        assert error.value.hint == "Give another: --method bag-of-words or left-to-right"
    write_tags(Path("words.conll"), 20)
    with pytest.raises(UserError) as error:
        baseline("words.conll", method="static-vectors")
    assert error.value.hint == "Give another: --method majority or bag-of-words or lstm or bilstm or left-to-right"


@pytest.mark.parametrize(
    "options",
    [
        {"method": "majority", "epochs": 3},
        {"method": "bag-of-words", "vectors": "random"},
        {"method": "lstm", "vectors_text": ["a.txt"]},
        {"method": "static-vectors", "from_": "minilm"},
    ],
)
def test_an_option_of_another_method_is_refused(workspace: Path, options: dict[str, object]) -> None:
    write_pairs(Path("pairs.csv"), 20)
    with pytest.raises(UserError, match="is not for --method"):
        baseline("pairs.csv", **options)


def test_left_to_right_is_the_fine_tuning_of_such_a_run(home: Path, workspace: Path) -> None:
    write_pairs(Path("pairs.csv"))
    for options, what in (({}, "No run in this folder"), ({"from_": str(home / "runs/pretrain-tiny")}, "was not pre-")):
        with pytest.raises(UserError, match=what) as error:
            baseline("pairs.csv", method="left-to-right", **options)
        assert error.value.hint == "Make one: bert pretrain --objective left-to-right"
    assert set(METHODS) | {"left-to-right"} == set(CHOICES)


def test_an_empty_split_has_no_predictions(workspace: Path) -> None:
    write_tags(Path("words.conll"), 20)
    model = load_for_task(_task("words.conll"), baseline("words.conll", method="majority").model, "float32")
    assert model.predict(Split("test", Sentences([], origin="nowhere"))) == []


def _task(name: str) -> object:
    from bertcli.lifecycle.own_files import own_task

    return own_task(name, {}, None)[0]
