"""Fine-tuning as people do it: early stopping, several seeds, a grid, another task's model, weighted classes."""

import json
from pathlib import Path

import pytest
import torch
from conftest import write_reviews
from test_training import weights

from bertcli.config import FinetuneConfig, read_recipe, recipe_names
from bertcli.evaluation import evaluate
from bertcli.finetuning import finetune
from bertcli.tasks import TASKS, get_task

FAST = {"batch_size": 16, "learning_rate": 1e-3, "epochs": 2.0}


@pytest.fixture
def reviews(at_home: Path, tmp_path: Path) -> str:
    return str(write_reviews(tmp_path / "reviews.csv"))


def test_the_papers_values_are_the_defaults_of_each_task_and_of_its_recipe() -> None:
    glue, squad = (32, 2e-5, 3, 128), (32, 5e-5, 3, 384)  # section 4.1, with the rate of the original README; 4.2
    expected = {"squad": squad, "squad_v2": (48, 5e-5, 2, 384), "swag": (16, 2e-5, 3, 128)}  # 4.3, 4.4
    for name, task in TASKS.items():
        if name.startswith("glue/") and not task.learnt_as:
            expected[name] = glue
    names = ("batch_size", "learning_rate", "epochs", "max_seq_length")
    for name, values in expected.items():
        assert tuple(getattr(TASKS[name], key) for key in names) == values, name
    recipes = [read_recipe(name) for name in recipe_names() if not name.startswith("pretrain/")]
    assert len(recipes) > 8
    for recipe in recipes:
        task = get_task(recipe["task"])
        assert {key: getattr(task, key) for key in names} == {key: recipe[key] for key in names}, task.name
    assert FinetuneConfig().warmup_proportion == 0.1


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
