"""The optimizer and the schedule are the original's."""

import json

import pytest
import torch
from conftest import GOLDENS
from torch import nn

from bertcli.models.working_copy import WorkingCopy
from bertcli.training.optimizer import make_optimizer
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
