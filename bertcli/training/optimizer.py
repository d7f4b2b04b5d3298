"""Adam as in the original and with bias correction, and LAMB."""

import math
import re
from collections.abc import Callable, Collection, Iterator
from typing import Any, cast

import torch
from torch import Tensor, nn

from bertcli.families.family import BERT_RULES, OptimizerRules
from bertcli.kernels import faster
from bertcli.models.working_copy import WorkingCopy

LAYER = re.compile(r"\blayers?\.(\d+)\.")  # in the names of weights
UNCORRECTED_STEP = 1e6  # 0.999 to this power is 0 in float64, and float32 counts on from it by ones


class Adam(torch.optim.AdamW):
    """Adam of either kind, which also updates the working copy of the weights (models/working_copy.py).

    The original's (AdamWeightDecayOptimizer of optimization.py) has no bias correction, epsilon outside the root, decay
    inside the step:

    m = 0.9 m + 0.1 g;  v = 0.999 v + 0.001 g²;  p -= lr (m / (√v + 1e-6) + 0.01 p)

    This is torch's fused AdamW but for the correction, 1 / (1 - β^step), which is 1 from a late step on: so its count of
    steps begins there. TensorFlow's and fairseq's Adam correct the step alone, not the root that epsilon is added to.
    """

    def __init__(
        self, groups: list[dict[str, Any]], first_step: float, working_copy: WorkingCopy, rules: OptimizerRules
    ) -> None:
        betas = (0.9, rules.adam_beta2)
        super().__init__(groups, lr=0.0, betas=betas, eps=rules.adam_epsilon, weight_decay=0.0, fused=True)
        self.first_step, self.working_copy, self.rules = first_step, working_copy, rules
        self.grad_scale = torch.ones(())  # what all gradients are divided by, as fused Adam and torch's scaler call it

    @torch.no_grad()
    def clip_by_global_norm(self, max_norm: float | None = None, count: float = 1.0) -> Tensor:
        """Have the next step divide all gradients by max(1, norm / max_norm), which the rules give; return the norm.

        Dividing while it reads spares a pass over them. Unlike in torch's clipping, nothing is added to the norm. Where the
        rules say so, the gradients are those of the sum of `count` losses, of whose mean they are given.
        """
        norm = self.working_copy.norm(gradient_norm([gradient for _, gradient, _ in self.given()]))
        limit = self.rules.max_grad_norm if max_norm is None else max_norm
        factor = count if self.rules.sums_losses else 1.0
        self.grad_scale = ((norm * factor / limit).clamp(min=1.0) if limit else torch.ones_like(norm)) / factor
        return norm

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Update every parameter that has a gradient, and its copy."""
        for parameter, _, _ in self.given():
            if not self.state[parameter]:
                zeros = {name: torch.zeros_like(parameter) for name in ("exp_avg", "exp_avg_sq")}
                self.state[parameter] = {"step": torch.tensor(self.first_step, device=parameter.device), **zeros}
        if not self.rules.corrects_epsilon:
            self._place_epsilon()
        self._take_step()

    def _place_epsilon(self) -> None:
        """Give the step, which adds epsilon to the corrected root, the one that does the same to the uncorrected root."""
        for group in self.param_groups:
            taken = [self.state[each]["step"] for each in group["params"] if self.state[each]]
            steps = float(torch.stack(taken).max()) if taken else 0.0  # one read, as each waits for the GPU
            group["eps"] = self.rules.adam_epsilon / math.sqrt(1 - group["betas"][1] ** (steps + 1))

    def _take_step(self) -> None:
        adam_step(self)

    def defer_rows(self) -> None:
        """Update rows of embeddings that have no gradient when they are next read, to the same bits, where that is faster."""
        defer_rows(self)

    def slots(self) -> dict[int, dict[str, Tensor]]:
        """The state of each parameter, by its number; all processes must ask, where each has a part of it."""
        for rows in self.working_copy.deferred.values():
            rows.read()
        whole, kept = self.working_copy.whole, [each for each in enumerate(self._parameters()) if each[1] in self.state]
        return {number: {name: whole(each, value) for name, value in self.state[each].items()} for number, each in kept}

    def load_slots(self, slots: dict[int, dict[str, Tensor]]) -> None:
        """Take the state of each parameter."""
        part, given = self.working_copy.part, [each for each in enumerate(self._parameters()) if each[0] in slots]
        parts = {number: {name: part(each, value) for name, value in slots[number].items()} for number, each in given}
        self.load_state_dict({**self.state_dict(), "state": parts})

    def _parameters(self) -> list[nn.Parameter]:
        return [parameter for group in self.param_groups for parameter in group["params"]]

    def given(self) -> Iterator[tuple[nn.Parameter, Tensor, dict[str, Any]]]:
        """The parameters that have a gradient, each with it and its group's options."""
        return ((p, p.grad, group) for group in self.param_groups for p in group["params"] if p.grad is not None)


class Lamb(Adam):
    """LAMB (You et al. 2020): Adam's step of each tensor, decay included, scaled to the norm of its weights.

    r = m̂ / (√v̂ + 1e-6) + 0.01 p;  p -= lr (‖p‖ / ‖r‖) r, the ratio being 1 where a norm is 0. ALBERT's has no bias
    correction, and scales no weights that do not decay.
    """

    def defer_rows(self) -> None:
        """Defer nothing: the step of a row depends on all rows."""

    def _take_step(self) -> None:
        for parameter, gradient, group in self.given():
            state, (beta1, beta2) = self.state[parameter], group["betas"]
            state["step"] += 1
            gradient = gradient.to(parameter.dtype) / self.grad_scale
            state["exp_avg"].lerp_(gradient, 1 - beta1)
            state["exp_avg_sq"].mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
            corrections = 1 - beta1 ** state["step"], 1 - beta2 ** state["step"]
            step = state["exp_avg"] / corrections[0] / ((state["exp_avg_sq"] / corrections[1]).sqrt() + group["eps"])
            step += group["weight_decay"] * parameter
            norms = self.working_copy.norm(torch.stack([parameter.norm(), step.norm()]))
            ratio = torch.where((norms[0] > 0) & (norms[1] > 0), norms[0] / norms[1], 1.0)
            if not (self.rules.adapts_undecayed or group["decays"]):
                ratio = torch.ones_like(ratio)
            parameter.sub_(group["lr"] * ratio * step)
        self.working_copy.refresh()


@faster
def gradient_norm(gradients: list[Tensor]) -> Tensor:
    """The norm of all gradients together, in float32."""
    norms = torch._foreach_norm([gradient.float() for gradient in gradients])
    return cast(Tensor, torch.linalg.vector_norm(torch.stack(norms)))


@faster
def adam_step(optimizer: Adam) -> None:
    """Update the weights, their moments and the copy by torch's fused AdamW, which takes gradients in float32 alone."""
    for parameter, gradient, _ in optimizer.given():
        parameter.grad = gradient.to(parameter.dtype)
    torch.optim.AdamW.step(optimizer)
    optimizer.working_copy.refresh()


@faster
def defer_rows(optimizer: Adam) -> None:
    """Defer nothing: the fused AdamW of torch updates all rows."""


def layer_shares(names: Collection[str], decay: float) -> dict[str, float]:
    """The share of the learning rate of each weight: it decays from the head down, as ELECTRA's optimization.py does.

    The head has the whole rate, the last of n layers decay², the first decay^(n + 1), embeddings decay^(n + 2).
    """
    layer_of = {name: int(found[1]) + 1 for name in names if (found := LAYER.search(name))}
    depth = max(layer_of.values(), default=0) + 2
    lowest = {name: 0 for name in names if "embeddings" in name} | layer_of
    return {name: decay ** (depth - lowest.get(name, depth)) for name in names}


def _groups(model: nn.Module, rules: OptimizerRules) -> list[dict[str, Any]]:
    """The weights by the share of the learning rate that they have, and whether they decay."""
    weights = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
    shares = layer_shares(weights, rules.layer_decay)
    parts: dict[tuple[float, bool], list[nn.Parameter]] = {}
    for name, weight in weights.items():
        is_kept = bool(rules.not_decayed and re.search(rules.not_decayed, name))
        parts.setdefault((shares[name], not is_kept), []).append(weight)
    return [
        {"params": parts[share, decays], "weight_decay": decays * rules.weight_decay, "decays": decays, "rate": share}
        for share, decays in sorted(parts, reverse=True)
    ]


def make_optimizer(model: nn.Module, name: str, working_copy: WorkingCopy, rules: OptimizerRules = BERT_RULES) -> Adam:
    """Make `bert` (the original's), `adamw` (bias-corrected: Mosbach et al. 2021, Zhang et al. 2021) or `lamb`."""
    kind, is_corrected = (Lamb, rules.corrects_lamb) if name == "lamb" else (Adam, name != "bert")
    return kind(_groups(model, rules), 0.0 if is_corrected else UNCORRECTED_STEP, working_copy, rules)
