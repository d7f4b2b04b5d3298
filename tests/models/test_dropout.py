"""Dropout keeps its rate and is independent; a bfloat16 copy learns what the float32 model learns."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from transformers import BertConfig, BertForPreTraining

from bertcli.data.packing.keyed import derive
from bertcli.models.dropout import Dropout, dropout, seed_dropout
from bertcli.models.encoder import encode
from bertcli.models.packed import PACKED
from bertcli.models.working_copy import WorkingCopy
from tests.models.test_packed import CONFIG, make_batch
from tests.support import with_loss

MASKS = {
    "masked_lm_positions": torch.tensor([1, 4, 20]),
    "masked_lm_ids": torch.tensor([7, 9, 11]),
    "next_sentence_labels": torch.tensor([0, 1, 0, 1, 1]),
}


def masks_of(seed: int, step: int, rank: int, count: int = 3) -> list[torch.Tensor]:
    """The masks that the first layers of a step draw."""
    seed_dropout(derive(seed, step, rank))
    return [(dropout(torch.ones(1000, 100), 0.1, training=True) > 0).float().flatten() for _ in range(count)]


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.003])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dropout_keeps_its_rate_and_the_mean(rate: float, dtype: torch.dtype) -> None:
    seed_dropout(1)
    values = torch.ones(1_000_000, dtype=dtype, requires_grad=True)
    dropped = dropout(values, rate, training=True)
    share = (dropped == 0).float().mean().item()
    assert share == pytest.approx(rate, abs=4 * (rate * (1 - rate) / 1e6) ** 0.5 + 1 / 65536)
    kept = dropped[dropped != 0]
    torch.testing.assert_close(
        kept, torch.full_like(kept, 1 / (1 - rate)), rtol=1e-2 if dtype != torch.float32 else 1e-4, atol=0
    )
    dropped.sum().backward()
    assert torch.equal(values.grad, dropped.detach())  # what is dropped has no gradient, what is kept the scale


def test_a_rate_of_one_drops_everything() -> None:
    values = torch.ones(100, requires_grad=True)
    dropped = dropout(values, 0.999999, training=True)
    dropped.sum().backward()
    assert (dropout(values, 1.0, training=True) == 0).all()
    assert torch.equal(values.grad, dropped.detach())


def test_masks_are_independent_of_each_other_and_functions_of_their_key() -> None:
    drawn = [*masks_of(0, 0, 0), *masks_of(0, 1, 0), *masks_of(0, 0, 1), *masks_of(1, 0, 0)]
    correlations = np.corrcoef(torch.stack(drawn).numpy())
    assert np.abs(correlations - np.eye(len(drawn))).max() < 5 / 100_000**0.5
    assert all(torch.equal(one, other) for one, other in zip(masks_of(0, 1, 0), drawn[3:6], strict=True))


def test_neighbours_within_a_mask_are_independent() -> None:
    (mask,) = masks_of(3, 0, 0, count=1)
    for distance in (1, 2, 3, 4, 64, 128):
        pair = torch.stack([mask[:-distance], mask[distance:]])
        assert abs(torch.corrcoef(pair)[0, 1]) < 5 / 100_000**0.5


def test_every_dropout_of_a_model_is_ours_and_evaluation_drops_nothing() -> None:
    model = BertForPreTraining(BertConfig(**{**CONFIG, "hidden_dropout_prob": 0.3}, attn_implementation=PACKED))
    names = set(model.state_dict())
    objective = with_loss(model, "pretrain").eval()
    assert not [module for module in model.modules() if type(module) is nn.Dropout]
    assert {module.p for module in model.modules() if isinstance(module, Dropout)} == {0.0, 0.3}
    assert set(model.state_dict()) == names
    batch, _ = make_batch(MASKS, {"masked_lm": 3, "next_sentence": 5})
    assert objective(batch)["masked_lm"] == objective(batch)["masked_lm"]
    objective.train()
    assert objective(batch)["masked_lm"] != objective(batch)["masked_lm"]


def test_a_bfloat16_copy_gives_the_float32_gradients_to_its_rounding() -> None:
    torch.manual_seed(0)
    objective = with_loss(BertForPreTraining(BertConfig(**CONFIG, attn_implementation=PACKED)), "pretrain")
    batch, _ = make_batch(MASKS, {"masked_lm": 3, "next_sentence": 5})
    gradients = {}
    for dtype in (torch.float32, torch.bfloat16):
        copy = WorkingCopy(objective, dtype)
        losses = [copy.module(batch) for _ in range(2)]
        for index, sums in enumerate(losses):  # two micro-batches
            (sums["masked_lm"] / 3 + sums["next_sentence"] / 5).backward()
            copy.give_gradients(is_last=index == 1)
        gradients[dtype] = {name: parameter.grad for name, parameter in objective.named_parameters()}
        objective.zero_grad()
    for name, exact in gradients[torch.float32].items():
        rounded = gradients[torch.bfloat16][name]
        assert rounded.dtype == torch.float32
        assert (rounded - exact).norm() <= 0.05 * exact.norm() + 1e-4, name


def test_a_frequent_tokens_gradient_is_summed_in_float32() -> None:
    embedding = nn.Embedding(2, 1)
    copy = WorkingCopy(embedding, torch.bfloat16)
    copy.module(torch.zeros(5000, dtype=torch.long)).sum().backward()
    copy.give_gradients(is_last=True)
    assert embedding.weight.grad[0].item() == pytest.approx(5000, rel=0.004)  # bfloat16 alone stops at 256


def test_the_copy_follows_its_model() -> None:
    model = nn.Linear(3, 3)
    copy = WorkingCopy(model, torch.bfloat16)
    with torch.no_grad():
        model.weight += 1
    copy.refresh()
    assert torch.equal(copy.module.weight, model.weight.bfloat16())
    assert WorkingCopy(model, torch.float32).module is model


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("cuts", [[5], [2, 3], [1, 1, 3]])
def test_a_row_draws_the_same_masks_however_rows_are_batched(precision: str, cuts: list[int]) -> None:
    config = BertConfig(**{**CONFIG, "hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0.2})
    model = BertForPreTraining._from_config(config, attn_implementation=PACKED)
    objective = with_loss(model, "pretrain").train().to(getattr(torch, precision))
    batch, _ = make_batch({}, {})
    ends = np.cumsum(batch.lengths)

    def states(first: int, last: int) -> torch.Tensor:
        """The hidden states of rows first to last, alone in a batch."""
        start, end = ends[first] - batch.lengths[first], ends[last - 1]
        tokens = {name: getattr(batch, name)[start:end] for name in ("input_ids", "token_type_ids", "position_ids")}
        part = replace(batch, **tokens, lengths=batch.lengths[first:last], sequence_rows=batch.rows[first:last])
        seed_dropout(9)
        return encode(objective.model, part)[: end - start]

    whole = states(0, len(ends))
    assert not torch.allclose(whole, encode(objective.model.eval(), batch)[: len(whole)], atol=0.05)
    objective.train()
    parts = [states(last - count, last) for count, last in zip(cuts, np.cumsum(cuts), strict=True)]
    bound = 1e-5 if precision == "float32" else 0.06
    torch.testing.assert_close(torch.cat(parts), whole, atol=bound, rtol=bound)
