"""Checkpoints of a training run: atomic writes, read without pickle."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from bertcli.data.atomic import replacing
from bertcli.errors import UserError

STATE = "state.json"


@dataclass
class History:
    """The state of the loop; saved with each checkpoint."""

    losses: list[float] = field(default_factory=list)  # the mean of each log interval
    unlogged: list[dict[str, float]] = field(default_factory=list)  # of each step since the last log line
    metrics: dict[str, float] = field(default_factory=dict)  # of the latest evaluation
    best: dict[str, Any] = field(default_factory=dict)
    evaluations_since_best: int = 0
    timed_tokens: int = 0
    timed_flops: float = 0.0
    timed_seconds: float = 0.0
    is_warm: bool = False  # whether the timed steps exclude the first ones
    steps: int = 0

    @property
    def tokens_per_second(self) -> float:
        """Real tokens per second over all processes, without the first steps."""
        return round(self.timed_tokens / self.timed_seconds, 1) if self.timed_seconds else 0.0

    def time(self, tokens: float, flops: float, seconds: float, is_warm: bool) -> None:
        """Time a step; the first steps count only until there are later ones."""
        if is_warm and not self.is_warm:
            self.timed_tokens, self.timed_flops, self.timed_seconds, self.is_warm = 0, 0.0, 0.0, True
        if is_warm == self.is_warm:
            self.timed_tokens += int(tokens)
            self.timed_flops += flops
            self.timed_seconds += seconds


def save_checkpoint(
    folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, step: int, more: dict[str, Any]
) -> None:
    """Write weights and optimizer state after `step` steps; `more` is the state of the loop.

    state.json names the file of the tensors and is replaced last: if the process is killed, the old state or the new remains.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {f"model.{name}": value for name, value in model.named_parameters()}
    for index, slots in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{name}": value for name, value in slots.items()}
    name = f"step-{step}.safetensors"
    with replacing(folder / name) as part:
        save_file({key: value.detach().cpu().contiguous() for key, value in tensors.items()}, part)
    with replacing(folder / STATE) as part:
        part.write_text(json.dumps({"step": step, "file": name, **more}), encoding="utf-8")
    for old in folder.glob("*step-*.safetensors*"):
        if old.name != name:
            old.unlink()


def load_checkpoint(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Load a checkpoint into a model and its optimizer; return the state of the loop, with `step`.

    Raises UserError if there is no checkpoint, or it is of another model.
    """
    if not (folder / STATE).exists():
        raise UserError(f"There is no checkpoint in `{folder}`.", "Start the run again without --resume.")
    state: dict[str, Any] = json.loads((folder / STATE).read_text(encoding="utf-8"))
    tensors = load_file(folder / state["file"])
    with torch.no_grad():
        for name, value in model.named_parameters():
            saved = tensors.get(f"model.{name}")
            if saved is None or saved.shape != value.shape:
                what = f"The checkpoint in `{folder}` is of another model (`{name}` differs)."
                raise UserError(what, "Resume with the options of the run.")
            value.copy_(saved)
    optimizer.load_state_dict({**optimizer.state_dict(), "state": _optimizer_slots(tensors)})
    return state


def _optimizer_slots(tensors: dict[str, Tensor]) -> dict[int, dict[str, Tensor]]:
    slots: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        if key.startswith("optimizer."):
            _, index, name = key.split(".", 2)
            slots.setdefault(int(index), {})[name] = value
    return slots
