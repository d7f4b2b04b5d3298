"""A fine-tuned model stands beside the guess and a bag of words, on the same examples."""

import csv
import random
import shlex
import sys
from pathlib import Path

import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score
from sklearn.pipeline import make_pipeline, make_union

from bertcli import baseline, evaluate, finetune
from bertcli.cli.main import main
from bertcli.kinds.kind import Split
from bertcli.lifecycle.baselining.beside_finetuning import predict_baselines, score_baselines
from bertcli.lifecycle.own_files import own_task
from bertcli.lifecycle.scoring.scores import score

GOOD, BAD = ("fine", "great", "lovely"), ("poor", "awful", "grim")


def write(name: str, count: int, seed: int, valued: bool = False) -> None:
    """Rows of which the words tell the label, or its value, of two thirds; three in four are good."""
    draw = random.Random(seed)
    with Path(name).open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        for number in range(count):
            is_good = number % 4 > 0
            word = draw.choice(GOOD if is_good else BAD) if draw.random() < 0.7 else "plain"
            label: object = (2.5 if is_good else -1.25) + draw.random() if valued else "good" if is_good else "bad"
            writer.writerow([f"a {word} day {draw.randrange(9)}", label])


@pytest.mark.parametrize("valued", [False, True])
def test_guess_and_bag_of_words_are_what_scikit_learn_gives_by_hand(workspace: Path, valued: bool) -> None:
    write("train.csv", 80, 0, valued)
    write("dev.csv", 60, 1, valued)
    task, parts = own_task("train.csv,dev.csv", {}, None)
    train, dev = parts["train"], parts["dev"]
    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"(?u)\w+|[^\w\s]")
    characters = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5), sublinear_tf=True)
    linear = Ridge(alpha=0.1) if valued else LogisticRegression(C=10, max_iter=1000)
    model = make_pipeline(make_union(words, characters), linear)
    labels = [float(label) if valued else label for label in train.labels]  # type: ignore[attr-defined]
    predicted = model.fit(train.texts, labels).predict(dev.texts)  # type: ignore[attr-defined]
    right = {"value": float} if valued else {"label": str}
    key, convert = next(iter(right.items()))
    ours = [{key: convert(label)} for label in dev.labels]  # type: ignore[attr-defined]
    if not valued:
        ours = [{"label": label, "score": 1.0} for label in dev.labels]  # type: ignore[attr-defined]
    found = score_baselines(task, train, dev, ours)
    if valued:
        assert found["guess"]["metrics"]["pearson"] == 0
        assert found["bag_of_words"]["metrics"]["pearson"] > 50
    else:
        assert found["guess"]["metrics"]["accuracy"] == 75
        by_hand = 100 * accuracy_score(dev.labels, predicted)  # type: ignore[attr-defined]
        assert found["bag_of_words"]["metrics"]["accuracy"] == pytest.approx(by_hand, abs=2)
        assert found["guess"]["difference"] == 25
    assert found["bag_of_words"]["significant"] is True
    everywhere = predict_baselines(task, train, None)["guess"]  # cross-validated, it is one for all too
    assert all(guess == everywhere[0] for guess in everywhere)


def test_the_result_has_the_baselines_and_commands_that_work(
    home: Path, workspace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write("mood.csv", 40, 0)
    start = str(home / "runs" / "pretrain-tiny")
    run = finetune("mood.csv", from_=start, epochs=1)
    assert set(run.baseline) == {"guess", "bag_of_words"}
    assert evaluate("mood.csv").to_json()["baseline"] == run.baseline  # the same examples
    write("other.csv", 20, 1)
    assert evaluate("other.csv").baseline == {}
    assert finetune("mood.csv", from_=start, epochs=1, baseline=False).baseline == {}

    def typed(command: str) -> str:
        monkeypatch.setattr(sys, "argv", shlex.split(command))
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 0, capsys.readouterr().err
        return capsys.readouterr().out

    shown = typed(f"bert finetune mood.csv --from {start} --epochs 1 --quiet")
    assert "bag of words" in shown
    assert "guess" in shown
    Path("choices.csv").write_text(
        "text,choice_a,choice_b,label\n" + "the cat,sat,ate,0\nthe dog,ran,on the mat,1\n" * 12
    )
    for box in (shown, typed(f"bert finetune choices.csv --from {start} --epochs 1 --quiet")):
        commands = [line.strip("│ ").removeprefix("next: ") for line in box.splitlines() if "next: " in line]
        assert len(commands) == 2
        for command in commands:
            typed(command)
    assert Path("predictions.csv").exists()
    assert "--choice sat --choice ate" in commands[1]


@pytest.mark.slow
def test_a_run_that_has_not_learnt_says_so_and_its_advice_works(home: Path, workspace: Path, minilm: Path) -> None:
    write("mood.csv", 100, 0)
    write("dev.csv", 40, 1)
    failed = finetune("mood.csv,dev.csv", from_="minilm", epochs=3, learning_rate=3.0)
    assert failed.advice == "bert finetune mood.csv,dev.csv --from minilm"
    assert finetune("mood.csv,dev.csv", from_="minilm", epochs=3).advice == ""
    start = str(home / "runs" / "pretrain-tiny")
    short = finetune("mood.csv,dev.csv", from_=start, epochs=0.4)
    assert short.advice == f"bert finetune mood.csv,dev.csv --from {start}/model"
    assert finetune("mood.csv,dev.csv", from_=start).advice == ""


def test_cross_validated_it_is_the_bag_of_words_of_its_own_command(workspace: Path) -> None:
    write("train.csv", 60, 0)
    task, parts = own_task("train.csv", {}, None)
    predictions = predict_baselines(task, parts["train"], None)["bag_of_words"]
    assert score(task, Split("train", parts["train"]), predictions) == baseline("train.csv").metrics
