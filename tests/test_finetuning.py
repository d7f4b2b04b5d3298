"""Fine-tuning as people do it: early stopping, several seeds, a grid, another task's model, weighted classes."""

import json
from pathlib import Path

import pytest
import torch
from conftest import write_reviews
from test_training import weights

from bertcli.evaluation import evaluate
from bertcli.finetuning import finetune

FAST = {"batch_size": 16, "learning_rate": 1e-3, "epochs": 2.0}


@pytest.fixture
def reviews(at_home: Path, tmp_path: Path) -> str:
    return str(write_reviews(tmp_path / "reviews.csv"))


@pytest.fixture(scope="module")
def three_labels(home: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A run of three labels, as of MNLI."""
    folder = tmp_path_factory.mktemp("three")
    rows = [f"the {word} cat,{label}" for label, word in (("no", "old"), ("yes", "green"), ("neither", "slowly"))] * 12
    (folder / "three.csv").write_text("text,label\n" + "\n".join(rows) + "\n")
    model = str(home / "runs" / "pretrain-tiny")
    return finetune(str(folder / "three.csv"), from_=model, batch_size=16, out=str(folder / "run")).run


@pytest.mark.parametrize(
    ("rows", "problem", "head_is_new"),
    [
        ("the cat,good\nthe dog,bad\n" * 12, "single_label_classification", True),  # as RTE and MRPC
        ("the cat,1.5\nthe dog,0.25\n" * 12, "regression", True),  # as STS-B
        ("the cat,a\nthe dog,b\nthe tree,c\n" * 12, "single_label_classification", True),  # as many, but others
        ("the cat,no\nthe dog,yes\nthe tree,neither\n" * 12, "single_label_classification", False),
    ],
    ids=["two labels", "a number", "three other labels", "the same labels"],
)
def test_a_model_of_another_task_gives_its_encoder_and_pooler_and_not_its_head(
    three_labels: str, at_home: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, rows: str, problem: str, head_is_new: bool
) -> None:  # fmt: skip
    caplog.set_level("INFO", logger="bertcli")
    (tmp_path / "new.csv").write_text("text,label\n" + rows)
    options = {"from_": three_labels, "learning_rate": 0.0, "epochs": 1, "batch_size": 16}
    run = finetune(str(tmp_path / "new.csv"), **options, out=str(tmp_path / "run")).run
    before, after = weights(three_labels), weights(run)
    for name in before:
        if name.startswith("bert."):
            assert torch.equal(before[name], after[name]), name
    assert "bert.pooler.dense.weight" in after
    said = "; new: classifier; left out: classifier (of another task)"
    assert (said in caplog.text) == head_is_new
    assert torch.equal(before["classifier.weight"], after["classifier.weight"]) != head_is_new
    assert json.loads((Path(run) / "model" / "config.json").read_text())["problem_type"] == problem
    back = finetune(
        str(Path(three_labels).parent / "three.csv"), **{**options, "from_": run}, out=str(tmp_path / "back")
    )
    assert json.loads((Path(back.model) / "config.json").read_text())["problem_type"] == "single_label_classification"
    assert evaluate(str(Path(three_labels).parent / "three.csv"), model=back.run).examples == 36
