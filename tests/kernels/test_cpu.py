"""What a CPU does by compiled loops gives what the plain functions give, forward and backward, in either precision."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from bertcli.data.packing.sequences import LENGTH_STEP, Sequences
from bertcli.kernels import cpu, updates
from bertcli.kernels.cpu import MANY, fits, fits_many
from bertcli.models.cross_entropy import cross_entropy_gradient, log_sums
from bertcli.models.dropout import drop, dropout, next_mask, seed_dropout
from bertcli.models.packed import attention, packed_attention
from bertcli.models.working_copy import WorkingCopy
from bertcli.training.optimizer import adam_step, gradient_norm, make_optimizer
from tests.kernels.exact import COLUMNS, PRECISIONS, ROWS, random


def test_attention_with_a_rate_that_rounds_to_none_drops_nothing() -> None:
    states = [random(1, 2, 30, 8).detach().requires_grad_() for _ in range(3)]
    sequences = Sequences((17, 9), 4, torch.device("cpu"))
    module = nn.Dropout().train()
    found = [
        packed_attention(module, *states, None, sequences=sequences, dropout=r, scaling=0.3)[0] for r in (0.0, 1e-7)
    ]
    assert torch.equal(*found)


@pytest.mark.parametrize("name", ["bert", "adamw"])
@PRECISIONS
def test_an_update_is_torchs_and_the_copy_follows(name: str, dtype: torch.dtype) -> None:
    model = nn.Linear(91, 93)  # of more than a block
    copy = WorkingCopy(model, dtype)
    optimizer, plain = make_optimizer(model, name, copy), nn.Linear(91, 93)
    plain.load_state_dict(model.state_dict())
    reference = torch.optim.AdamW(plain.parameters(), eps=1e-6, weight_decay=0.01)
    for step in range(3):
        copy.module(random(5 + step, 91, dtype=dtype).detach()).square().sum().backward()
        copy.give_gradients(is_last=True)
        gradients = {name: parameter.grad.float().clone() for name, parameter in model.named_parameters()}
        assert model.weight.grad.dtype == dtype  # as they are, for a step of one pass
        norm = torch.stack([each.norm() for each in gradients.values()]).norm()
        torch.testing.assert_close(optimizer.clip_by_global_norm(), norm)
        for group in (*optimizer.param_groups, *reference.param_groups):
            group["lr"] = 1e-3
        for key, parameter in plain.named_parameters():
            parameter.grad = gradients[key] / norm.clamp(min=1)
            if name == "bert":
                reference.state[parameter].update(step=torch.tensor(1e6 + step))
                reference.state[parameter].setdefault("exp_avg", torch.zeros_like(parameter))
                reference.state[parameter].setdefault("exp_avg_sq", torch.zeros_like(parameter))
        reference.step()
        optimizer.step()
        optimizer.zero_grad()
        torch.testing.assert_close(model.weight, plain.weight, atol=1e-6, rtol=1e-5)
        assert torch.equal(copy.module.weight, model.weight.to(dtype))


def test_a_kernel_leaves_torchs_threads_and_gives_the_same_with_one() -> None:
    threads = torch.get_num_threads()
    values, found = random(ROWS, COLUMNS).detach(), []
    try:
        for count in (threads, 1):
            torch.set_num_threads(count)
            seed_dropout(7)
            found.append(dropout(values, 0.3, training=True))
            assert torch.get_num_threads() == count
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(*found)


def test_what_kernels_do_not_take_is_torchs() -> None:
    values = random(3, 4)
    assert fits(values, values)
    assert not fits(values, values.bfloat16())
    assert not fits(values.double())
    assert not fits(values.to("meta"))
    with torch.autocast("cpu", torch.bfloat16):
        assert not fits(values)
    assert (dropout(values.double(), 0.5, training=True) == 0).any()
    assert np.isclose(next_mask(0.25, 1)[2], 4 / 3)


@PRECISIONS
@pytest.mark.parametrize("shape", [(3, 4), (ROWS, COLUMNS), (2, 3, 1), (1000,)])
def test_dropout_draws_the_masks_of_its_plain_twin(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    seed_dropout(11)
    for rate in (0.1, 0.5, 0.00001, 0.0):
        mask, gradients = next_mask(rate, math.prod(shape[:-1])), []
        results = []
        for function in (cpu.drop, drop.__wrapped__):
            values = random(*shape, dtype=dtype)
            results.append(function(values, mask))
            results[-1].backward(random(*shape, dtype=dtype).detach())
            gradients.append(values.grad)
        assert torch.equal(*results)
        assert torch.equal(*gradients)


@pytest.mark.parametrize("rate", [0.0, 0.3])
@pytest.mark.parametrize("is_joint", [True, False])
@pytest.mark.parametrize("is_fused", [True, False])
@pytest.mark.parametrize(
    ("lengths", "size", "is_causal"),
    [
        ((70, 65, 40, 12, 12, 3, 1), 16, False),
        ((32, 31, 17, 16, 2, 1), 24, False),
        ((40, 33, 32, 16, 5), 16, True),
        ((99,), 3, False),
    ],
)
@PRECISIONS
def test_attention_gives_what_its_plain_twin_gives(
    dtype: torch.dtype,
    lengths: tuple[int, ...],
    size: int,
    is_causal: bool,
    is_fused: bool,
    is_joint: bool,
    rate: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cpu, "fuses", lambda *_: is_fused)
    step = LENGTH_STEP if dtype == torch.bfloat16 else 1
    sequences, count = Sequences(lengths, 5, torch.device("cpu"), step, is_causal), sum(lengths) + 5
    results = []
    for function in (cpu.attention, attention.__wrapped__):
        seed_dropout(5)
        states = random(count, 3, 2, size, dtype=dtype)
        context = function(sequences, next_mask(rate, count), 0.25, *([states] if is_joint else states.split(1, dim=1)))
        assert context is not NotImplemented
        context.backward(random(count, 2, size, dtype=dtype).detach())
        results.append((context.detach().float(), states.grad.float()))
    bound = 1e-5 if dtype == torch.float32 else 0.02
    for found, wanted in zip(*results, strict=True):
        assert (found[:-5] - wanted[:-5]).norm() <= bound * wanted.norm()
        assert not found[-5:].any()
        assert not wanted[-5:].any()


@pytest.mark.parametrize("is_causal", [True, False])
@pytest.mark.parametrize("longest", [200, 100])  # in bfloat16 by groups, and fused
@PRECISIONS
def test_attention_without_a_gradient_is_that_with_one_and_of_few_tokens_that_of_many(
    dtype: torch.dtype, longest: int, is_causal: bool
) -> None:
    lengths = (longest, 80, *range(40, 1, -1))
    sequences, count = Sequences(lengths, 7, torch.device("cpu"), is_causal=is_causal), sum(lengths) + 7
    states, mask = random(count, 3, 2, 20, dtype=dtype), next_mask(0.0, count)
    trained = cpu.attention(sequences, mask, 0.25, states).detach()
    states = states.detach()
    with torch.no_grad():
        assert torch.equal(cpu.attention(sequences, mask, 0.25, states), trained)
        alone = Sequences((longest,), 0, torch.device("cpu"), is_causal=is_causal)
        first = cpu.attention(alone, next_mask(0.0, longest), 0.25, states[:longest])
    bound = 1e-6 if dtype == torch.float32 else 2**-7
    torch.testing.assert_close(first, trained[:longest], atol=bound, rtol=bound)


@PRECISIONS
def test_cross_entropy_gives_what_its_plain_twin_gives(dtype: torch.dtype) -> None:
    logits, labels = (5 * random(ROWS, 300, dtype=dtype)).detach(), torch.arange(ROWS) * 3
    sums = [function(logits) for function in (cpu.log_sums, log_sums.__wrapped__)]
    torch.testing.assert_close(*sums, rtol=1e-6, atol=0)
    factor = torch.tensor(0.25)
    given = [
        f(logits, labels, sums[0], factor) for f in (cpu.cross_entropy_gradient, cross_entropy_gradient.__wrapped__)
    ]
    torch.testing.assert_close(*given, rtol=1e-5 if dtype == torch.float32 else 2**-7, atol=1e-7)


@PRECISIONS
def test_an_update_gives_what_its_plain_twin_gives(dtype: torch.dtype) -> None:
    weights = []
    for norm, step in ((updates.gradient_norm, updates.adam_step), (gradient_norm.__wrapped__, adam_step.__wrapped__)):
        torch.manual_seed(0)
        model = nn.Linear(91, 93)
        copy = WorkingCopy(model, dtype)
        optimizer = make_optimizer(model, "bert", copy)
        for group in optimizer.param_groups:
            group["lr"] = 1e-3
        for _ in range(3):
            copy.module(random(7, 91, dtype=dtype).detach()).square().sum().backward()
            copy.give_gradients(is_last=True)
            found = norm([gradient for _, gradient, _ in optimizer.given()])
            optimizer.grad_scale = found.clamp(min=1.0)
            for parameter in model.parameters():
                optimizer.state[parameter].setdefault("step", torch.tensor(optimizer.first_step))
                optimizer.state[parameter].setdefault("exp_avg", torch.zeros_like(parameter))
                optimizer.state[parameter].setdefault("exp_avg_sq", torch.zeros_like(parameter))
            with torch.no_grad():
                assert step(optimizer) is not NotImplemented
            optimizer.zero_grad()
        weights.append([found, model.weight.detach(), copy.module.weight.detach().float()])
    torch.testing.assert_close(*weights, atol=1e-6 if dtype == torch.float32 else 1e-3, rtol=1e-5)


class Bag(nn.Module):
    """An embedding that a batch reads few rows of, and a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.layer = nn.Embedding(300, 40), nn.Linear(40, 7)

    def forward(self, ids: Tensor) -> Tensor:
        """The loss of tokens."""
        loss: Tensor = self.layer(self.words(ids)).float().square().sum()
        return loss


@pytest.mark.parametrize("passes", [1, 3])
@pytest.mark.parametrize("name", ["bert", "adamw"])
@PRECISIONS
def test_rows_that_are_updated_when_they_are_next_read_have_the_bits_of_those_updated_at_once(
    name: str, dtype: torch.dtype, passes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(updates, "MANY_ROWS", 100)
    monkeypatch.setattr(updates, "MOST_DEFERRED", 11)
    found = []
    for is_deferred in (False, True):
        model, norms, slots = Bag(), [], {}
        torch.manual_seed(0)
        for parameter in model.parameters():
            nn.init.normal_(parameter, std=0.3)
        for step in range(30):
            if step in (0, 17):  # there it is resumed from what is saved
                copy = WorkingCopy(model, dtype)
                optimizer = make_optimizer(model, name, copy)
                optimizer.load_slots(slots)
                if is_deferred:
                    optimizer.defer_rows()
            for index in range(passes):
                ids = torch.randint(20 if step % 5 else 300, (1, 13), generator=torch.manual_seed(step * 9 + index))
                copy.module(ids * 7 % 300).backward()
                if is_deferred and dtype == torch.float32:
                    assert model.words.weight.grad.is_sparse
                copy.give_gradients(is_last=index == passes - 1)
            norms.append(optimizer.clip_by_global_norm(0.2 if step % 3 else 1e9).item())
            for group in optimizer.param_groups:
                group["lr"] = 1e-2 * (step % 7)
            if step % 4 != 3:  # else it is skipped
                optimizer.step()
            optimizer.zero_grad()
            if step in (8, 16, 29):
                copy.gather()
                slots = optimizer.slots()
        assert bool(copy.deferred) == is_deferred
        tensors = [
            *model.parameters(),
            *copy.module.parameters(),
            *(v for each in slots.values() for v in each.values()),
        ]
        found.append([norms, *(each.detach().float().numpy().tobytes() for each in tensors)])
    assert found[0] == found[1]


def test_a_tied_embedding_one_in_small_and_those_of_lamb_or_of_no_kernels_are_updated_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def deferred(model: nn.Module, name: str = "bert") -> int:
        copy = WorkingCopy(model, torch.bfloat16)
        make_optimizer(model, name, copy).defer_rows()
        return len(copy.deferred)

    assert deferred(Bag()) == 0
    monkeypatch.setattr(updates, "MANY_ROWS", 100)
    assert deferred(Bag()) == 1
    assert deferred(Bag(), "lamb") == 0
    tied = Bag()
    tied.decoder = nn.Linear(40, 300)
    tied.decoder.weight = tied.words.weight
    assert deferred(tied) == 0
    monkeypatch.setenv("BERT_KERNELS", "off")
    assert deferred(Bag()) == 0


def test_a_short_prediction_does_not_load_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    states, few = torch.ones(MANY, 4), torch.ones(MANY - 1, 4)
    for name, value in {"COMPILED": "not.loaded", "WORTH_LOADING": 2 * states.numel(), "_passed": 0}.items():
        monkeypatch.setattr(cpu, name, value)
    monkeypatch.setattr(cpu, "has_compiler", lambda: True)
    with torch.no_grad():
        assert [fits_many(each) for each in (states, few, states, few)] == [False, False, True, False]
    assert fits_many(few)  # in a training
