"""--flops: pre-trainings of equal compute."""

from pathlib import Path

import numpy as np
import pytest
import yaml

from bertcli import distill, pretrain
from bertcli.config.recipes import with_recipe
from bertcli.data.packing.batches import longest_first
from bertcli.data.pretraining.shards import load_pretraining_examples
from bertcli.errors import UserError
from bertcli.objectives import get_objective
from bertcli.training.throughput import count_flops, training_flops
from tests.support import build


@pytest.fixture
def data(home: Path, workspace: Path) -> str:
    return str(home / "pretraining-data")


def test_torch_counts_what_the_formula_says_of_masked_words_and_the_head_of_pairs(data: str) -> None:
    examples = load_pretraining_examples(data, seed=0)
    objective, rows = get_objective("mlm+nsp"), longest_first(np.arange(8), examples.lengths)
    model = build("pretrain", "tiny", examples.tokenizer, {}, seed=0)
    batch = objective.packable(examples).pack(rows, key=0)
    of_pairs = 6 * len(rows) * (128 * 128 + 128 * 2)  # the pooler and its head
    counted = count_flops(objective.with_loss(model), batch)
    # The formula counts all of the last layer, of which only what the heads read is computed.
    assert 0.6 < counted / (training_flops(model, batch) + of_pairs) < 1
    assert all(weight.grad is None for weight in model.parameters())


def test_a_run_of_so_many_operations_has_as_many_steps_as_they_pay_for(data: str) -> None:
    options = {"data": data, "size": "tiny", "batch_size": 8, "out": "run"}
    run = pretrain(flops=2e10, **options)
    assert 3 < run.steps < 100
    saved = yaml.safe_load(Path("run/config.yaml").read_text())
    assert (saved["flops"], saved["steps"]) == (2e10, run.steps)
    assert pretrain(resume=True, steps=run.steps + 2, **options).steps == run.steps + 2
    larger = pretrain(flops=2e10, **options | {"size": "mini", "out": "larger"})
    assert larger.steps < run.steps / 2


@pytest.mark.parametrize("beside", [{"steps": 9}, {"phases": "16:0.5,32:0.5"}])
def test_flops_that_steps_contradict_and_flops_that_pay_for_no_step_are_refused(data: str, beside: dict) -> None:
    with pytest.raises(UserError, match=f"--{next(iter(beside))} cannot be given"):
        pretrain(data=data, size="tiny", flops=2e10, **beside)
    with pytest.raises(UserError, match="more than --flops 5"):
        pretrain(data=data, size="tiny", flops=5)


def test_a_distillation_counts_the_answers_of_its_teacher_too(data: str, home: Path) -> None:
    options = {"teacher": str(home / "runs" / "pretrain-tiny"), "data": data, "batch_size": 8}
    student = distill(**options, size="tiny", flops=2e10, out="student")
    alone = pretrain(data=data, objective="mlm", size="tiny", batch_size=8, flops=2e10, out="alone")
    assert 3 < student.steps < alone.steps
    saved = yaml.safe_load(Path("student/config.yaml").read_text())
    assert (saved["flops"], saved["steps"], saved["warmup_steps"]) == (2e10, student.steps, -(-student.steps // 20))
    more = student.steps + 2
    assert distill(**options, out="student", resume=True, steps=more).steps == more
    with pytest.raises(UserError, match="--steps cannot be given"):
        distill(**options, flops=2e10, steps=3)
    with pytest.raises(UserError, match="--flops is for distillation at pre-training"):
        distill("glue/rte", teacher=options["teacher"], flops=2e10)


def test_the_steps_of_a_recipe_give_way_to_flops() -> None:
    assert with_recipe("pretrain/laptop", {})["steps"]
    assert "steps" not in with_recipe("pretrain/laptop", {"flops": 1e12})
