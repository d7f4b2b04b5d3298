"""Adam without bias correction, as in the original, or with it; the learning rate of each step."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from bertcli.kernels import faster
from bertcli.models.working_copy import WorkingCopy

WEIGHT_DECAY = 0.01
UNCORRECTED_STEP = 1e6  # 0.999 to this power is 0 in float64, and float32 counts on from it by ones
NOT_DECAYED = re.compile(r"LayerNorm|layer_norm|bias")


class Adam(torch.optim.AdamW):
    """Adam with or without bias correction, which also updates the working copy of the weights (models/working_copy.py).

    AdamWeightDecayOptimizer of optimization.py: m = 0.9 m + 0.1 g;  v = 0.999 v + 0.001 g²;  p -= lr (m / (√v + 1e-6) +
    0.01 p). This is torch's fused AdamW without its correction, 1 / (1 - β^step), which is 1 at late steps: so the count
    of steps starts at `first_step`.
    """

    def __init__(self, groups: list[dict[str, Any]], first_step: float, working_copy: WorkingCopy) -> None:
        super().__init__(groups, lr=0.0, betas=(0.9, 0.999), eps=1e-6, fused=True)
        self.first_step, self.working_copy = first_step, working_copy
        self.grad_scale = torch.ones(())  # divides all gradients; the name is that of fused Adam and torch's scaler

    @torch.no_grad()
    def clip_by_global_norm(self, max_norm: float = 1.0) -> Tensor:
        """Have the next step divide all gradients by max(1, norm / max_norm); unlike torch, add nothing to the norm."""
        norm = gradient_norm([gradient for _, gradient, _ in self.given()])
        self.grad_scale = (norm / max_norm).clamp(min=1.0)
        return norm

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Update every parameter that has a gradient, and its copy."""
        for parameter, _, _ in self.given():
            if not self.state[parameter]:
                zeros = {name: torch.zeros_like(parameter) for name in ("exp_avg", "exp_avg_sq")}
                self.state[parameter] = {"step": torch.tensor(self.first_step, device=parameter.device), **zeros}
        adam_step(self)

    def given(self) -> Iterator[tuple[nn.Parameter, Tensor, dict[str, Any]]]:
        """Each parameter that has a gradient, the gradient and the options of its group."""
        return ((p, p.grad, group) for group in self.param_groups for p in group["params"] if p.grad is not None)


@faster
def gradient_norm(gradients: list[Tensor]) -> Tensor:
    """The norm of all gradients together, in float32."""
    norms = torch._foreach_norm([gradient.float() for gradient in gradients])
    norm: Tensor = torch.linalg.vector_norm(torch.stack(norms))
    return norm


@faster
def adam_step(optimizer: Adam) -> None:
    """Update the weights, their moments and the copy by torch's fused AdamW, which takes gradients in float32 only."""
    for parameter, gradient, _ in optimizer.given():
        parameter.grad = gradient.to(parameter.dtype)
    torch.optim.AdamW.step(optimizer)
    optimizer.working_copy.refresh()


def make_optimizer(model: nn.Module, name: str, working_copy: WorkingCopy) -> Adam:
    """Make `bert` (the original's) or `adamw` (bias-corrected: Mosbach et al. 2021, Zhang et al. 2021)."""
    decayed: list[nn.Parameter] = []
    others: list[nn.Parameter] = []  # LayerNorm and biases
    for key, parameter in model.named_parameters():
        if parameter.requires_grad:
            (others if NOT_DECAYED.search(key) else decayed).append(parameter)
    groups = [{"params": decayed, "weight_decay": WEIGHT_DECAY}, {"params": others, "weight_decay": 0.0}]
    return Adam(groups, UNCORRECTED_STEP if name == "bert" else 0.0, working_copy)


def learning_rate_at(step: int, peak: float, steps: int, warmup_steps: int) -> float:
    """Linear warm-up from 0, then linear decay counted from step 0: the rate drops at the end of warm-up, as in the original."""
    return peak * step / warmup_steps if step < warmup_steps else peak * (1 - min(step, steps) / steps)
