"""An objective is found by name, and the sum of its parts."""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForPreTraining

from bertcli.data.packing.batches import longest_first
from bertcli.data.pretraining.shards import load_pretraining_examples
from bertcli.errors import UserError
from bertcli.families.bert import BERT
from bertcli.models.loading import build_model
from bertcli.objectives import OBJECTIVES, default_objective, get_objective
from bertcli.objectives.objective import ObjectiveExamples


def test_an_unknown_objective_names_the_nearest() -> None:
    assert all(get_objective(name).name == name for name in OBJECTIVES)
    with pytest.raises(UserError, match="Unknown objective `mlm-nsp`") as caught:
        get_objective("mlm-nsp")
    assert "`mlm+nsp`" in caught.value.hint


def test_pairs_are_for_both_parts_and_single_texts_for_masked_lm() -> None:
    assert [part.name for part in default_objective(has_pairs=True).parts] == ["masked_lm", "next_sentence"]
    assert [part.name for part in default_objective(has_pairs=False).parts] == ["masked_lm"]


@pytest.mark.parametrize("name", sorted(BERT.objectives))
def test_outputs_targets_counts_and_metrics_fit_each_other(at_home: Path, name: str) -> None:
    objective, examples = get_objective(name), load_pretraining_examples("pretraining-data", 0)
    batch = ObjectiveExamples(objective, examples).pack(longest_first(np.array([3, 0]), examples.lengths), 7)
    tokenizer, labels = examples.tokenizer, dict(objective.labels)
    model = build_model(objective.auto_class(), objective.family or BERT, "tiny", tokenizer, labels, 0)
    model = copy.deepcopy(objective.with_loss(model)).eval()
    outputs, losses = model.outputs(batch), model(batch)
    metrics = objective.evaluate(model, examples.head(5), torch.device("cpu"))
    assert outputs.keys() == losses.keys() == batch.counts.keys() == {part.name for part in objective.parts}
    for part in objective.parts:
        assert len(outputs[part.name]) == len(batch.labels[part.labels]) == batch.counts[part.name]
        loss = torch.nn.functional.cross_entropy(outputs[part.name], batch.labels[part.labels], reduction="sum")
        assert torch.isclose(losses[part.name], loss, rtol=1e-4)
        assert metrics[f"{part.name}_loss"] > 0
        assert 0 <= metrics[f"{part.name}_accuracy"] <= 100


def test_a_part_has_the_same_targets_and_outputs_alone_as_in_a_sum(at_home: Path) -> None:
    examples = load_pretraining_examples("pretraining-data", 0)
    model = AutoModelForPreTraining.from_pretrained("runs/pretrain-tiny/model")
    rows = np.array([5, 2, 9])
    alone, both = (ObjectiveExamples(get_objective(name), examples).pack(rows, 1) for name in ("mlm", "mlm+nsp"))
    assert torch.equal(alone.input_ids, both.input_ids)
    first = get_objective("mlm").with_loss(model).eval().outputs(alone)["masked_lm"]
    torch.testing.assert_close(first, get_objective("mlm+nsp").with_loss(model).outputs(both)["masked_lm"])


def test_dynamic_targets_are_a_function_of_seed_step_and_row(at_home: Path, tmp_path: Path) -> None:
    from bertcli.lifecycle.make_pretraining_data import make_pretraining_data

    make_pretraining_data("corpus.txt", out=str(tmp_path / "data"), masking="dynamic", dupe_factor=1, workers=1)

    def masked(seed: int, step: int, rows: list[int]) -> list[int]:
        examples = load_pretraining_examples(tmp_path / "data", seed)
        batch = ObjectiveExamples(get_objective("mlm"), examples).pack(np.array(rows), step)
        return batch.input_ids[: batch.lengths[0]].tolist()

    assert masked(0, 4, [3, 1]) == masked(0, 4, [3])
    assert masked(0, 4, [3]) != masked(0, 5, [3])
    assert masked(0, 4, [3]) != masked(1, 4, [3])
