"""A sentence encoder that is to read pairs first learns, without labels, what its vectors say of two texts."""

import csv
import random
from pathlib import Path

import pytest

from bertcli.config.recipes import recipes_folder
from bertcli.data.labelled.official_files import read_columns
from bertcli.lifecycle.evaluate import evaluate
from bertcli.lifecycle.finetune import finetune
from bertcli.lifecycle.finetuning import similarity

BANKING = recipes_folder() / "demo" / "banking77"
LITTLE = {"from_": "minilm", "baseline": False, "epochs": 0.1}  # a step
WORDS = "steps without labels, to predict the cosine"


@pytest.fixture
def pairs(workspace: Path) -> tuple[str, str]:
    """A few questions with two thirds of their own words, or with those of another, and others to score."""
    questions = list(read_columns(BANKING / "train.csv.xz", {"text": "text"}).texts)
    random.Random(0).shuffle(questions)
    for name, (first, last) in {"train.csv": (0, 24), "other.csv": (24, 124)}.items():
        with Path(name).open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["text", "text_pair", "label"])
            for number in range(first, last):
                words = questions[number + 500 * (number % 2)].split()
                shortened = " ".join(word for place, word in enumerate(words) if place % 3)
                rows.writerow([questions[number], shortened, "other" if number % 2 else "same"])
    return "train.csv", "other.csv"


@pytest.mark.slow
def test_few_pairs_are_told_apart_by_what_the_encoder_knows_of_texts(
    minilm: Path, pairs: tuple[str, str], said: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    train, other = pairs
    monkeypatch.setattr(similarity, "STEPS", 40)
    monkeypatch.setattr(similarity, "TOKENS", 1)
    finetune(train, **LITTLE)
    assert WORDS in said.text
    assert evaluate(other).metrics["accuracy"] > 72  # without it 58


@pytest.mark.slow
def test_single_texts_runs_that_have_read_pairs_and_shallow_models_do_not_learn_it(
    minilm: Path, pairs: tuple[str, str], said: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    train, _ = pairs
    for name in ("STEPS", "TOKENS", "MOST_PARTS"):
        monkeypatch.setattr(similarity, name, 2)
    lines = Path(train).read_text().splitlines()
    with Path("single.csv").open("w", newline="") as file:
        csv.writer(file).writerows([each[0], each[-1]] for each in csv.reader(lines))
    finetune("single.csv", **LITTLE)
    run = finetune(train, **LITTLE)
    assert said.text.count(WORDS) == 1
    finetune(train, **{**LITTLE, "from_": run.run})
    assert said.text.count(WORDS) == 1
    for many, times in ((2, 1), (1_000, 2)):  # bert-books has four layers
        monkeypatch.setattr(similarity, "MANY_PAIRS", many)
        finetune(train, **{**LITTLE, "from_": "bert-books"})
        assert said.text.count(WORDS) == times
