"""The share of the peak counts the FLOPs of real tokens, and the race knows what its commands need."""

from string import Formatter

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import BertConfig, BertModel

from bertcli.data.packing.batches import pack
from bertcli.models.loading import save_model
from bertcli.training.throughput import peak_flops, training_flops
from tests.benchmarks.__main__ import put_into
from tests.benchmarks.cases import CPU_CASES, GPU_CASES, Case
from tests.benchmarks.materials import MAKERS, Materials, enlarge
from tests.benchmarks.race import agreement_of
from tests.support import build, load, with_loss

CONFIG = {
    "vocab_size": 50,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}


def make_batch(rows: int, length: int):
    ids = np.random.default_rng(0).integers(1, 50, rows * length)
    return pack(ids, np.zeros_like(ids), np.full(rows, length), np.arange(rows))


def test_the_formula_counts_what_torch_counts_of_forward_and_backward():
    model = BertModel(BertConfig(**CONFIG, attn_implementation="eager"), add_pooling_layer=False)
    rows, length = 5, 16
    with FlopCounterMode(display=False) as counter:
        model(torch.randint(1, 50, (rows, length))).last_hidden_state.sum().backward()
    assert training_flops(model, make_batch(rows, length)) == counter.get_total_flops()


def test_masked_tokens_count_the_head_and_frozen_models_nothing(google_tokenizer):
    model = build("pretrain", "tiny", google_tokenizer, {}, seed=0)
    batch = make_batch(5, 16)
    without = training_flops(model, batch)
    batch.labels["masked_lm_ids"] = torch.zeros(7, dtype=torch.long)
    assert training_flops(model, batch) - without == 6 * 7 * (128**2 + 128 * google_tokenizer.size)
    assert training_flops(with_loss(model, "pretrain").model.requires_grad_(False), batch) == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_an_unknown_chip_is_measured(dtype: torch.dtype):
    peak, words = peak_flops(torch.device("cpu"), dtype)
    assert peak > 0
    assert words.endswith("large matrix products here")


@pytest.mark.parametrize("case", [*CPU_CASES, *GPU_CASES], ids=lambda case: case.name)
def test_every_command_of_the_race_is_made_of_words_that_are_known(case: Case, tmp_path):
    known = {*MAKERS, *Materials(case, tmp_path), "out"}
    for command in case.runs.values():
        assert {name for _, name, _, _ in Formatter().parse(command) if name} <= known
    for row in case.rows:
        assert {row.ours, row.theirs} <= {*case.runs, ""}


def test_a_model_is_enlarged_for_the_race_without_another_answer(google_tokenizer, tmp_path):
    small = build("classify", "tiny", google_tokenizer, {"num_labels": 2}, seed=0).eval()
    save_model(small, google_tokenizer, tmp_path / "model")
    enlarge(tmp_path / "model", "mini")
    large = load("classify", str(tmp_path / "model")).eval()
    assert (large.config.hidden_size, large.config.num_hidden_layers) == (256, 4)
    batch = make_batch(5, 16)
    wanted, found = (with_loss(model, "classify").outputs(batch)["logits"] for model in (small, large))
    torch.testing.assert_close(found, wanted)


def test_labels_that_are_all_the_same_do_not_count_as_the_same_work():
    case = CPU_CASES[0]
    sides = [{"labels": labels} for labels in (["a"] * 9, ["a"] * 8 + ["b"])]
    assert agreement_of(case, sides[0], sides[0]) == ("100.00% of 9 labels", False)
    assert agreement_of(case, sides[1], sides[1]) == ("100.00% of 8 + 1 labels", True)
    assert not agreement_of(case, sides[0], sides[1])[1]


def test_lines_measured_again_take_the_places_of_the_old_ones_and_new_cases_come_last():
    before = "# Measured\n\nthen\n\n| what | ours |\n| --- | --- |\n| one | 1 |\n| two | 2 |\n"
    raced = "| what | ours |\n| --- | --- |\n| three | 3 |\n| one | 4 |"
    after = put_into(before, raced, ["case"], "now").splitlines()
    assert after[-3:] == ["| one | 4 |", "| two | 2 |", "| three | 3 |"]
    assert "Measured again, case: now." in after
