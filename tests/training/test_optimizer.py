"""The optimizer and the schedule are the original's."""

import json
from dataclasses import replace
from typing import Any

import pytest
import torch
from conftest import GOLDENS
from torch import nn

from bertcli.families.albert import ALBERT
from bertcli.families.family import LINEAR, MULTIPLIED, OptimizerRules
from bertcli.families.roberta import ROBERTA as ROBERTA_FAMILY
from bertcli.families.xlnet import XLNET
from bertcli.models.working_copy import WorkingCopy
from bertcli.training.optimizer import layer_shares, make_optimizer
from bertcli.training.plan import learning_rate_at

GOLDEN = json.loads((GOLDENS / "optimizer.json").read_text())


class Parameters(nn.Module):
    """The golden's variables; a slash is no letter of a parameter's name in torch, and gamma is LayerNorm's weight."""

    def __init__(self) -> None:
        super().__init__()
        for name, value in GOLDEN["initial_params"].items():
            self.register_parameter(name.replace("/", "|"), nn.Parameter(torch.tensor(value, dtype=torch.float32)))


@pytest.mark.parametrize("run", range(len(GOLDEN["runs"])))
def test_every_update_equals_googles(run: int) -> None:
    golden = GOLDEN["runs"][run]
    model = Parameters()
    optimizer = make_optimizer(model, "bert", WorkingCopy(model, torch.float32))
    peak, total, warmup = golden["init_lr"], golden["num_train_steps"], golden["num_warmup_steps"]
    for step, expected in enumerate(golden["tf_float32"]["steps"]):
        rate = learning_rate_at(step, peak, total, warmup)
        assert rate == pytest.approx(expected["lr"], abs=1e-8)
        for name, parameter in model.named_parameters():
            parameter.grad = torch.tensor(GOLDEN["grads"][step][name.replace("|", "/")], dtype=torch.float32)
        optimizer.clip_by_global_norm()
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        for name, parameter in model.named_parameters():
            wanted = torch.tensor(expected["params"][name.replace("|", "/")], dtype=torch.float32)
            torch.testing.assert_close(parameter.detach(), wanted, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("name", ["bert", "adamw"])
def test_layer_norms_and_biases_are_not_decayed(name: str) -> None:
    model = Parameters()
    groups = make_optimizer(model, name, WorkingCopy(model, torch.float32)).param_groups
    names = {id(parameter): key.replace("|", "/") for key, parameter in model.named_parameters()}
    assert {names[id(p)] for p in groups[0]["params"]} == set(GOLDEN["decayed"])
    assert {names[id(p)] for p in groups[1]["params"]} == set(GOLDEN["not_decayed"])


def test_clipping_leaves_small_gradients_and_scales_large_ones_exactly() -> None:
    model = nn.Linear(2, 1, bias=False)
    optimizer, parameter = make_optimizer(model, "adamw", WorkingCopy(model, torch.float32)), model.weight
    for gradient, norm, used in (([0.3, 0.4], 0.5, [0.3, 0.4]), ([30.0, 40.0], 50.0, [0.6, 0.8])):
        optimizer.state.clear()
        parameter.grad = torch.tensor([gradient])
        assert optimizer.clip_by_global_norm().item() == norm
        optimizer.step()
        assert optimizer.state[parameter]["exp_avg"][0].tolist() == pytest.approx([0.1 * part for part in used])


def test_lamb_takes_a_step_of_each_tensor_as_long_as_its_weights_times_the_rate() -> None:
    model = nn.Linear(4, 3)
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    optimizer = make_optimizer(model, "lamb", WorkingCopy(model, torch.float32))
    gradients = {name: torch.randn_like(value) for name, value in before.items()}
    for name, parameter in model.named_parameters():
        parameter.grad = gradients[name].clone()
    norm = optimizer.clip_by_global_norm()
    for group in optimizer.param_groups:
        group["lr"] = 0.1
    optimizer.step()
    for name, parameter in model.named_parameters():
        gradient = gradients[name] / norm.clamp(min=1.0)
        decay = 0.0 if name == "bias" else 0.01
        step = (
            gradient / (gradient.abs() + 1e-6) + decay * before[name]
        )  # both moments are corrected to the first gradient
        wanted = before[name] - 0.1 * before[name].norm() / step.norm() * step
        torch.testing.assert_close(parameter.detach(), wanted, atol=1e-6, rtol=1e-5)


ALBERTS = json.loads((GOLDENS / "albert" / "lamb.json").read_text())


class Named(nn.Module):
    """The variables of ALBERT's golden, by its names."""

    def __init__(self, variables: dict[str, list[float]]) -> None:
        super().__init__()
        for name, value in variables.items():
            self.register_parameter(name.replace("/", "|"), nn.Parameter(torch.tensor(value)))


def test_every_update_of_lamb_equals_alberts() -> None:
    model = Named(ALBERTS["initial"])
    optimizer = make_optimizer(model, "lamb", WorkingCopy(model, torch.float32), ALBERT.optimizer)
    for group in optimizer.param_groups:
        group["lr"] = 0.1
    for gradients, wanted in zip(ALBERTS["grads"], ALBERTS["params_after_step"], strict=True):
        for name, parameter in model.named_parameters():
            parameter.grad = torch.tensor(gradients[name.replace("|", "/")])
        optimizer.step()
        for name, parameter in model.named_parameters():
            expected = torch.tensor(wanted[name.replace("|", "/")])
            torch.testing.assert_close(parameter.detach(), expected, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("golden", [each for each in ALBERTS["schedules"] if not each["start_warmup_step"]])
def test_schedules_equal_alberts(golden: dict[str, Any]) -> None:
    known = golden["init_lr"], golden["num_train_steps"], golden["num_warmup_steps"]
    rules = replace(ALBERT.optimizer, power=golden["poly_power"])
    rates = [learning_rate_at(step, *known, rules) for step in golden["steps"]]
    assert rates == pytest.approx(golden["lr"], rel=1e-6, abs=1e-10)


ROBERTA = json.loads((GOLDENS / "roberta" / "optimizer.json").read_text())


@pytest.mark.parametrize("golden", ROBERTA["schedule"], ids=lambda each: f"power {each['power']}, end {each['end']}")
def test_the_linear_schedule_is_fairseqs(golden: dict[str, Any]) -> None:
    rules = OptimizerRules(schedule=LINEAR, final_rate=golden["end"] / golden["peak"], power=golden["power"])
    for step, expected in enumerate(golden["lr_used_by_update_k"]):
        rate = learning_rate_at(step, golden["peak"], golden["total"], golden["warmup"], rules)
        assert rate == pytest.approx(expected, abs=1e-12)


def test_adam_with_epsilon_on_the_uncorrected_root_is_fairseqs() -> None:
    golden = ROBERTA["adam"]
    model = nn.Module()
    model.register_parameter("bias", nn.Parameter(torch.tensor(golden["initial"])))
    optimizer = make_optimizer(model, "adamw", WorkingCopy(model, torch.float32), ROBERTA_FAMILY.optimizer)
    for gradient, expected in zip(golden["grads"], golden["params_after"], strict=True):
        model.bias.grad = torch.tensor(gradient)
        optimizer.clip_by_global_norm()
        for group in optimizer.param_groups:
            group["lr"] = golden["args"]["lr"]
        optimizer.step()
        torch.testing.assert_close(model.bias.detach(), torch.tensor(expected), atol=1e-6, rtol=0)


ELECTRA = json.loads((GOLDENS / "electra" / "units.json").read_text())["schedules"]


@pytest.mark.parametrize("case", ELECTRA, ids=lambda case: "-".join(str(each) for each in [*case.values()][:4]))
def test_the_warm_up_of_electra_is_a_factor_of_the_decay(case: dict[str, Any]) -> None:
    steps = case["num_train_steps"]
    warmup = max(steps * case.get("warmup_proportion", 0.0), case.get("warmup_steps", 0))
    rules = OptimizerRules(schedule=MULTIPLIED, power=case.get("lr_decay_power", 1.0))
    for step, wanted in zip(case["steps"], case["lr"], strict=True):
        rate = learning_rate_at(step, case["learning_rate"], steps, warmup, rules)
        if wanted is None:  # without a warm-up the original divides 0 by 0
            wanted = case["learning_rate"]
        assert rate == pytest.approx(wanted, rel=1e-5, abs=2e-11)


NAMES = [
    "embeddings.word_embeddings.weight",
    "encoder.layer.0.output.dense.bias",
    "encoder.layer.10.output.dense.weight",
]


def test_the_learning_rate_decays_from_the_head_down() -> None:
    shares = layer_shares([*NAMES, "embeddings_project.weight", "classifier.weight"], 0.8)
    assert [*shares.values()] == pytest.approx([0.8**13, 0.8**12, 0.8**2, 0.8**13, 1.0])
    assert {*layer_shares(NAMES, 1.0).values()} == {1.0}


def test_of_a_sum_of_losses_most_steps_are_clipped() -> None:
    model = nn.Linear(2, 1, bias=False)
    for sums, used in ((False, [0.03, 0.04]), (True, [0.6, 0.8])):
        optimizer = make_optimizer(model, "bert", WorkingCopy(model, torch.float32), OptimizerRules(sums_losses=sums))
        model.weight.grad = torch.tensor([[0.03, 0.04]])  # of a mean of 32
        assert optimizer.clip_by_global_norm(count=32.0).item() == pytest.approx(0.05)
        optimizer.step()
        assert optimizer.state[model.weight]["exp_avg"][0].tolist() == pytest.approx([0.1 * part for part in used])


XLNET_STEPS = json.loads((GOLDENS / "xlnet" / "optimizer.json").read_text())


@pytest.mark.parametrize(("name", "decay"), [("adamw", 0.0), ("bert", 0.01)])
def test_steps_of_xlnet_are_those_of_its_authors(name: str, decay: float) -> None:
    """With decay, the original may count a step before it reads the rate: in its warm-up, each update has the next one's."""
    golden = XLNET_STEPS[f"wd{decay}_rate1.0"]
    model = nn.Module()
    starts = [("layer_0", [1.0, -2.0, 0.5]), ("layer_1", [1.0, -2.0, 0.5]), ("layer_2", [1.0, -2.0, 0.5])]
    for own, start in [*starts, ("r_w_bias", [0.3])]:
        model.register_parameter(own, nn.Parameter(torch.tensor(start)))
    rules = replace(XLNET.finetuning, weight_decay=decay, corrects_epsilon=decay > 0)
    optimizer = make_optimizer(model, name, WorkingCopy(model, torch.float32), rules)
    base = torch.tensor([0.01, -0.02, 0.005])
    for step, (rate, expected) in enumerate(zip(golden["lr"], golden["values"], strict=True)):
        assert learning_rate_at(step, 1e-2, 12, 4, rules) == pytest.approx(rate, abs=1e-8)
        for number, parameter in enumerate(model.parameters()):
            parameter.grad = base * (number + 1) if number < 3 else torch.tensor([0.02])
        optimizer.clip_by_global_norm()
        for group in optimizer.param_groups:
            group["lr"] = learning_rate_at(step + 1, 1e-2, 12, 4, rules) if decay and step < 4 else rate
        optimizer.step()
        for parameter, value in zip(model.parameters(), expected, strict=True):
            torch.testing.assert_close(parameter.detach(), torch.tensor(value), atol=1e-6, rtol=0)
