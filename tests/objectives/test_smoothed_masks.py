"""Smoothed masks and lines are those of DistilBERT's distiller.py and lm_seqs_dataset.py."""

import json
import math
from typing import Any, cast

import numpy as np
import pytest
import torch
from conftest import GOLDENS

from bertcli.data.pretraining.draws import Draws
from bertcli.data.pretraining.instances import InstanceRules, make_instances
from bertcli.data.pretraining.masking import MaskingRules
from bertcli.data.pretraining.shards import UnpackedRows
from bertcli.data.text.corpus import Corpus
from bertcli.data.text.layout import Layout
from bertcli.objectives.lines import LINES
from bertcli.objectives.smoothed_masks import smoothed_part, token_weights

MASKS = json.loads((GOLDENS / "distilbert" / "mask.json").read_text())
SEQUENCES = json.loads((GOLDENS / "distilbert" / "sequences.json").read_text())
V, COUNTS = MASKS["vocab_size"], np.array(MASKS["counts"])
RULES = MaskingRules(list(range(V)), [False] * V, 4, 2, 3, 0.15, 20, False, (80, 10, 10), False, [2, 0, 3, 1, 4])


def mask_padded(ids: torch.Tensor, lengths: torch.Tensor, weights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Mask a padded batch by our weights as prepare_batch_mlm does, by torch's global generator, draw for draw."""
    weight = weights[ids.flatten()]
    count = math.ceil(RULES.masked_lm_prob * int(lengths.sum()))
    is_masked = torch.zeros(ids.numel(), dtype=torch.bool)
    is_masked[torch.multinomial(weight / weight.sum(), count, replacement=False)] = True
    is_masked = is_masked.view_as(ids) & (ids != 0)
    real = ids[is_masked]
    random = real.clone().random_(len(weights))
    choice = torch.multinomial(torch.tensor(RULES.shares) / 100, len(real), replacement=True)
    new = torch.where(choice == 0, RULES.mask_id, torch.where(choice == 1, real, random))
    return ids.masked_scatter(is_masked, new), ids.masked_fill(~is_masked, -100)


@pytest.mark.parametrize("smoothing", MASKS["token_probs"])
def test_weights_are_the_originals(smoothing: str) -> None:
    found = token_weights(COUNTS, float(smoothing), RULES.special_ids)
    np.testing.assert_allclose(found, MASKS["token_probs"][smoothing], rtol=1e-12)


@pytest.mark.parametrize("case", MASKS["cases"], ids=lambda case: f"seed {case['torch_seed']}")
def test_a_batch_is_masked_as_the_original_masks_it(case: dict[str, Any]) -> None:
    torch.manual_seed(case["torch_seed"])
    ids, lengths = torch.tensor(MASKS["input_ids"]), torch.tensor(MASKS["lengths"])
    weights = torch.from_numpy(token_weights(COUNTS, 0.7, RULES.special_ids))
    masked, labels = mask_padded(ids, lengths, weights)
    assert (masked.tolist(), labels.tolist()) == (case["token_ids"], case["mlm_labels"])


def test_dynamic_masks_prefer_rare_tokens_as_much_and_mask_the_share_of_all() -> None:
    rows, lengths = 3000, np.array(MASKS["lengths"])
    ids = np.concatenate([row[:n] for row, n in zip(MASKS["input_ids"], lengths, strict=True)])
    counts = np.bincount(ids, minlength=V)
    all_ids, all_lengths = np.tile(ids, rows), np.tile(lengths, rows)
    part = smoothed_part(counts, 0.7, RULES)
    read = UnpackedRows(np.arange(len(all_lengths)), all_lengths, all_ids, all_ids * 0, all_lengths * 0, None, RULES, 5)
    found = part.targets(read)
    assert len(found["masked_lm_ids"]) / len(all_ids) == pytest.approx(0.15, abs=0.003)
    share = np.bincount(found["masked_lm_ids"], minlength=V) / np.maximum(1, counts * rows)
    twice, once = share[(counts == 2)].mean(), share[(counts == 1) & (share > 0)].mean()
    assert once / twice == pytest.approx(2**0.7, rel=0.05)
    assert not share[RULES.special_ids].any()


def test_lines_are_cut_and_left_out_as_the_original_does() -> None:
    lines = [row[1:-1] for row in SEQUENCES["input"]]
    bounds = np.cumsum([0, *map(len, lines)]).tolist()
    corpus = Corpus(np.concatenate(lines).astype(np.uint32), bounds, [(0, 4), (4, len(lines))])
    rules = InstanceRules(
        LINES.cut, cast(Any, None), Layout((2,), (3,), (3,)), RULES, False, SEQUENCES["max_model_input_size"], 0.1, 1
    )
    instances, order = make_instances(corpus, rules, Draws(1))
    assert sorted(order) == list(range(len(SEQUENCES["kept"])))
    columns = instances.columns(np.arange(len(order)))
    rows = np.split(columns.input_ids, columns.offsets[1:-1])
    assert [row.tolist() for row in rows] == SEQUENCES["kept"]
