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
WORDS = "first learns from the vectors of the texts how near two are"


@pytest.fixture
def pairs(workspace: Path) -> tuple[str, str]:
    """A few pairs of questions, of the same class or not, and others to score."""
    found = read_columns(BANKING / "train.csv.xz", {"text": "text", "label": "category"})
    by_class: dict[str, list[str]] = {}
    for text, label in zip(found.texts, found.labels or [], strict=True):
        by_class.setdefault(label, []).append(text)
    chosen = random.Random(0)
    for name, size in (("train.csv", 24), ("other.csv", 200)):
        with Path(name).open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["text", "text_pair", "label"])
            for number in range(size):
                of_first, of_other = chosen.sample(sorted(by_class), 2)
                second = of_other if number % 2 else of_first
                texts = chosen.choice(by_class[of_first]), chosen.choice(by_class[second])
                rows.writerow([*texts, "other" if number % 2 else "same"])
    return "train.csv", "other.csv"


def test_few_pairs_are_told_apart_by_what_the_encoder_knows_of_texts(
    minilm: Path, pairs: tuple[str, str], said: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    train, other = pairs
    monkeypatch.setattr(similarity, "STEPS", 80)
    finetune(train, **LITTLE)
    assert WORDS in said.text
    assert evaluate(other).metrics["accuracy"] > 58  # without it about 50


def test_single_texts_runs_that_have_read_pairs_and_shallow_models_do_not_learn_it(
    minilm: Path, pairs: tuple[str, str], said: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    train, _ = pairs
    monkeypatch.setattr(similarity, "STEPS", 2)
    lines = Path(train).read_text().splitlines()
    with Path("single.csv").open("w", newline="") as file:
        csv.writer(file).writerows([each[0], each[-1]] for each in csv.reader(lines))
    finetune("single.csv", **LITTLE)
    run = finetune(train, **LITTLE)
    assert said.text.count(WORDS) == 1
    for start in (run.run, "bert-books"):
        finetune(train, **{**LITTLE, "from_": start})
    assert said.text.count(WORDS) == 1
