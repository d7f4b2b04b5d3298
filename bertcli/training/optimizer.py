"""Adam as the original has it, and the bias-corrected one; both decay all but LayerNorm and biases."""

import re
from collections.abc import Callable

import torch
from torch import Tensor, nn

WEIGHT_DECAY = 0.01
UNCORRECTED_STEP = 1e6  # 0.999 to this power is 0 in float64, and float32 counts on from it by ones
NOT_DECAYED = re.compile(r"LayerNorm|layer_norm|bias")


class BertAdam(torch.optim.AdamW):
    """AdamWeightDecayOptimizer of optimization.py: no bias correction, epsilon outside the root, decay inside the step.

    m = 0.9 m + 0.1 g;  v = 0.999 v + 0.001 g²;  p -= lr (m / (√v + 1e-6) + 0.01 p)

    This is torch's fused AdamW but for the bias correction, 1 / (1 - β^step), which is 1 from a late step on: so its
    count of steps begins there.
    """

    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Update every parameter that has a gradient."""
        for parameter in (p for group in self.param_groups for p in group["params"] if p.grad is not None):
            if not self.state[parameter]:
                self.state[parameter] = {
                    "step": torch.tensor(UNCORRECTED_STEP, device=parameter.device),
                    "exp_avg": torch.zeros_like(parameter),
                    "exp_avg_sq": torch.zeros_like(parameter),
                }
        loss: float | None = super().step(closure)
        return loss


def make_optimizer(model: nn.Module, name: str) -> torch.optim.Optimizer:
    """Make `bert` (the original's) or `adamw` (bias-corrected: Mosbach et al. 2021, Zhang et al. 2021)."""
    named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    groups = [
        {"params": [p for n, p in named if not NOT_DECAYED.search(n)], "weight_decay": WEIGHT_DECAY},
        {"params": [p for n, p in named if NOT_DECAYED.search(n)], "weight_decay": 0.0},
    ]
    adam = BertAdam if name == "bert" else torch.optim.AdamW
    return adam(groups, lr=0.0, betas=(0.9, 0.999), eps=1e-6, fused=True)


@torch.no_grad()
def clip_by_global_norm(optimizer: torch.optim.Optimizer, max_norm: float = 1.0) -> Tensor:
    """Have the next step divide all gradients by max(1, norm / max_norm); return the norm.

    Fused Adam divides while it reads, which spares a pass over them. Unlike in torch's clipping, nothing is added to the norm.
    """
    gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    if gradients[0].device.type == "cpu":  # where a product takes half as long as a norm
        norm = torch.stack([torch.dot(flat, flat) for flat in (each.flatten() for each in gradients)]).sum().sqrt()
    else:
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
    optimizer.grad_scale = (norm / max_norm).clamp(min=1.0)  # type: ignore[attr-defined]
    return norm
