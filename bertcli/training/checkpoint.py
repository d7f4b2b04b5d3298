"""The state of a training run, saved whole and read without pickle."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.optim import Optimizer

from bertcli.data.atomic import replacing
from bertcli.errors import UserError

STATE = "state.json"


def save_checkpoint(folder: Path, model: nn.Module, optimizer: Optimizer, step: int, more: dict[str, Any]) -> None:
    """Write weights and optimizer state after `step` updates; `more` is the state of the loop.

    state.json names the file of the tensors and is replaced last, atomically: a kill leaves the old state or the new one.
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


def load_checkpoint(folder: Path, model: nn.Module, optimizer: Optimizer) -> dict[str, Any]:
    """Load the saved state into a model and its optimizer; return the state of the loop, with `step`.

    Raises UserError if there is no checkpoint, or it does not fit the model.
    """
    if not (folder / STATE).exists():
        raise UserError(f"There is no checkpoint in `{folder}`.", "Start the run again without --resume.")
    remembered: dict[str, Any] = json.loads((folder / STATE).read_text(encoding="utf-8"))
    tensors = load_file(folder / remembered["file"])
    with torch.no_grad():
        for name, value in model.named_parameters():
            saved = tensors.get(f"model.{name}")
            if saved is None or saved.shape != value.shape:
                what = f"The checkpoint in `{folder}` is not of this model (`{name}`)."
                raise UserError(what, "Resume with the options of the run.")
            value.copy_(saved)
    slots: dict[int, dict[str, Tensor]] = {}
    for key, saved in tensors.items():
        if key.startswith("optimizer."):
            _, index, name = key.split(".", 2)
            slots.setdefault(int(index), {})[name] = saved
    optimizer.load_state_dict({**optimizer.state_dict(), "state": slots})
    return remembered
