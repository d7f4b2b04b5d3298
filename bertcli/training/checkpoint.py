"""Checkpoints of a training run: the latest two, with checksums, read without pickle."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertcli import say
from bertcli.data.atomic import remove, replacing
from bertcli.data.checksums import CHECKSUMS, damaged_files
from bertcli.data.json_files import read_json
from bertcli.errors import RunError, UserError, quoted

if TYPE_CHECKING:
    from torch import Tensor, nn

    Slots = dict[int, dict[str, Tensor]]  # of the optimizer, by the number of the parameter

CHECKPOINTS = "checkpoints"
LAST = "last"  # the only checkpoint, without checksums, of a run begun by an older version
STATE, TENSORS = "state.json", "tensors.safetensors"


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
    skipped: int = 0  # updates that were not finite
    skipped_in_a_row: int = 0
    is_warm: bool = False  # whether the timed steps exclude the first ones
    is_unscored: bool = False  # whether an evaluation is due, as a signal came before its end
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

    def describe(self, steps: int, memory_bytes: int) -> str:
        """The progress of a run of so many steps, in words."""
        loss = f"loss {self.losses[-1]:.3g}  " if self.losses else ""
        scores = self.metrics and self.best.get("metrics", self.metrics)  # none where the best is cross-validated
        score = "".join(f"{name.split('_')[0]} {value:.1f}  " for name, value in [*scores.items()][:1])
        memory = f"{memory_bytes / 1e9:.1f} GB"
        return f"step {self.steps}/{steps}  {loss}{score}{self.tokens_per_second:,.0f} tokens/s  {memory}"


def save_checkpoint(folder: Path, model: nn.Module, slots: Slots, step: int, more: dict[str, Any]) -> None:
    """Write a folder with weights and optimizer state after `step` steps; `more` is the state of the loop.

    It has checksums, appears whole or not at all, and the one before it is kept.
    """
    from safetensors.torch import save_file

    tensors: dict[str, Tensor] = {f"model.{name}": value for name, value in model.named_parameters()}
    for index, values in slots.items():
        tensors |= {f"optimizer.{index}.{name}": value for name, value in values.items()}
    with refusing_removal(folder.parent):
        folder.mkdir(exist_ok=True)
    for old in _checkpoints(folder)[1:]:  # first, as three may not fit on the disk
        remove(old)
    with replacing(folder / f"step-{step}") as part:
        part.mkdir()
        save_file({key: value.detach().cpu().contiguous() for key, value in tensors.items()}, part / TENSORS)
        (part / STATE).write_text(json.dumps({"step": step, "file": TENSORS, **more}), encoding="utf-8")
    remove(folder.with_name(LAST))


@contextmanager
def refusing_removal(run: Path) -> Iterator[None]:
    """Raise RunError where a file cannot be made because the folder of the run is gone."""
    try:
        yield
    except FileNotFoundError:
        what = f"The folder `{run}` was removed while the run was writing to it."
        raise RunError(what, "Run the same command again: it begins from the start.") from None


def has_checkpoint(run: Path) -> bool:
    """Whether a run has something to resume from, whole or damaged."""
    return bool(_checkpoints(run / CHECKPOINTS)) or (run / LAST / STATE).exists()


def latest_step(run: Path) -> int:
    """The step of the latest checkpoint of a run; 0 where there is none."""
    return max(map(_step_of, _checkpoints(run / CHECKPOINTS)), default=0)


def latest_checkpoint(run: Path) -> Path:
    """The latest checkpoint of a run that is not damaged. Raises UserError if there is none."""
    passed_over: list[Path] = []
    for checkpoint in _checkpoints(run / CHECKPOINTS):
        damaged = next(chain([] if (checkpoint / CHECKSUMS).exists() else [CHECKSUMS], damaged_files(checkpoint)), None)
        if not damaged:
            return _instead_of(passed_over, checkpoint)
        passed_over.append(checkpoint / damaged)
    if (run / LAST / STATE).exists():
        return _instead_of(passed_over, run / LAST)
    why = f": `{passed_over[0]}` differs from its checksum" if passed_over else ""
    hint = f"Remove them and begin again: rm -r {quoted(run / CHECKPOINTS)}"
    raise UserError(f"No checkpoint of `{run}` is whole{why}.", hint)


def _instead_of(damaged: list[Path], used: Path) -> Path:
    for path in damaged:
        say(f"{path} is damaged: it differs from its checksum; the checkpoint before is used")
    return used


def forget_checkpoints_after(run: Path, step: int) -> None:
    """Remove the checkpoints of steps that a resumed run repeats."""
    for checkpoint in _checkpoints(run / CHECKPOINTS):
        if _step_of(checkpoint) > step:
            remove(checkpoint)


def _checkpoints(folder: Path) -> list[Path]:
    """The checkpoints in a folder, latest first."""
    return sorted(folder.glob("step-*"), key=_step_of, reverse=True)


def _step_of(checkpoint: Path) -> int:
    return int(checkpoint.name.partition("-")[2])


def load_checkpoint(checkpoint: Path, model: nn.Module) -> tuple[dict[str, Any], Slots]:
    """Load a checkpoint into a model; return the state of the loop, with `step`, and that of the optimizer.

    Raises UserError if it is of another model.
    """
    state, tensors = _read(checkpoint)
    _copy(checkpoint, tensors, model, "model.")
    return state, _optimizer_slots(tensors)


def load_weights(checkpoint: Path, model: nn.Module) -> None:
    """Load the weights of a checkpoint into the model without its loss. Raises UserError if they are of another model."""
    _copy(checkpoint, _read(checkpoint)[1], model, "model.model.")


def _read(checkpoint: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    from safetensors.torch import load_file

    state = read_json(checkpoint / STATE, "Resume from another: remove this folder.", step=int, file=str)
    return state, load_file(checkpoint / state.pop("file"))


def _copy(checkpoint: Path, tensors: dict[str, Tensor], model: nn.Module, prefix: str) -> None:
    import torch

    with torch.no_grad():
        for name, value in model.named_parameters():
            saved = tensors.get(prefix + name)
            if saved is None or saved.shape != value.shape:
                what = f"The checkpoint `{checkpoint}` is of another model (`{name}` differs)."
                raise UserError(what, "Resume with the options of the run.")
            value.copy_(saved)


def _optimizer_slots(tensors: dict[str, Tensor]) -> Slots:
    slots: Slots = {}
    for key, value in tensors.items():
        if key.startswith("optimizer."):
            _, index, name = key.split(".", 2)
            slots.setdefault(int(index), {})[name] = value
    return slots
