"""Adam as the original has it, and the bias-corrected one; both decay all but LayerNorm and biases."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

WEIGHT_DECAY = 0.01
NOT_DECAYED = re.compile(r"LayerNorm|layer_norm|bias")


class BertAdam(torch.optim.Optimizer):
    """AdamWeightDecayOptimizer of optimization.py: no bias correction, epsilon outside the root, decay inside the step.

    m = 0.9 m + 0.1 g;  v = 0.999 v + 0.001 g²;  p -= lr (m / (√v + 1e-6) + 0.01 p)
    """

    def __init__(
        self, params: Any, lr: float = 0.0, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-6
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": 0.0})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Update every parameter that has a gradient."""
        for group in self.param_groups:
            parameters = [p for p in group["params"] if p.grad is not None]
            if parameters:
                self._update(parameters, group)

    def _update(self, parameters: list[Tensor], group: dict[str, Any]) -> None:
        gradients = [p.grad for p in parameters if p.grad is not None]
        averages = [self._slot(p, "exp_avg") for p in parameters]
        squares = [self._slot(p, "exp_avg_sq") for p in parameters]
        beta1, beta2 = group["betas"]
        torch._foreach_lerp_(averages, gradients, 1 - beta1)
        torch._foreach_mul_(squares, beta2)
        torch._foreach_addcmul_(squares, gradients, gradients, 1 - beta2)
        roots = torch._foreach_sqrt(squares)
        torch._foreach_add_(roots, group["eps"])
        updates = torch._foreach_div(averages, roots)
        if group["weight_decay"]:
            torch._foreach_add_(updates, parameters, alpha=group["weight_decay"])
        torch._foreach_add_(parameters, updates, alpha=-group["lr"])

    def _slot(self, parameter: Tensor, name: str) -> Tensor:
        state = self.state[parameter]
        if name not in state:
            state[name] = torch.zeros_like(parameter)
        slot: Tensor = state[name]
        return slot


def make_optimizer(model: nn.Module, name: str) -> torch.optim.Optimizer:
    """Make `bert` (the original's) or `adamw` (bias-corrected: Mosbach et al. 2021, Zhang et al. 2021)."""
    named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    groups = [
        {"params": [p for n, p in named if not NOT_DECAYED.search(n)], "weight_decay": WEIGHT_DECAY},
        {"params": [p for n, p in named if NOT_DECAYED.search(n)], "weight_decay": 0.0},
    ]
    if name == "bert":
        return BertAdam(groups)
    return torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.999), eps=1e-6, fused=True)


@torch.no_grad()
def clip_by_global_norm(parameters: Iterable[Tensor], max_norm: float = 1.0) -> Tensor:
    """Scale all gradients by min(1, max_norm / norm); return the norm. Unlike torch's, nothing is added to it."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    norm: Tensor = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
    torch._foreach_mul_(gradients, (max_norm / norm).clamp(max=1.0))
    return norm
