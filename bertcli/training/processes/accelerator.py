"""The Accelerator of a run: its processes, its precision and its device."""

import os
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator, PartialState
from accelerate.state import AcceleratorState
from accelerate.utils import DistributedDataParallelKwargs, parse_flag_from_env, patch_environment
from torch import cuda
from torch.backends import mps

from bertcli import number_of
from bertcli.errors import UserError, first_line
from bertcli.training.device import training_precision
from bertcli.training.processes.shards import is_sharded

# bfloat16 needs nothing of Accelerate: a working copy of the model runs in it (models/working_copy.py).
ACCELERATE_NAMES = {"float32": "no", "bfloat16": "no", "float16": "fp16"}


def make_accelerator(precision: str, track: str | None, folder: Path, unused: bool = False) -> Accelerator:
    """Make the Accelerator of a run; `unused`: a loss may leave weights without a gradient."""
    handlers = [DistributedDataParallelKwargs(find_unused_parameters=unused, gradient_as_bucket_view=True)]
    if is_sharded():
        _prepare_for_shards(precision)
    AcceleratorState._reset_state()  # the process has one, and an earlier run may have had another precision
    mixed, cpu = ACCELERATE_NAMES[training_precision(precision)], not (cuda.is_available() or mps.is_available())
    tracks: dict[str, Any] = {"log_with": track, "project_dir": str(folder / "tracking")}
    try:
        with patch_environment(ACCELERATE_USE_FSDP="false"):  # Accelerate has no FSDP on a CPU; Shards is for both
            return Accelerator(mixed_precision=mixed, cpu=cpu, kwargs_handlers=handlers, **tracks)
    except (ValueError, ImportError) as error:
        if track is None:
            raise
        what = f"--track {track} cannot be used: {first_line(error)}."
        raise UserError(what, f"Install it: pip install {track}") from None


def _prepare_for_shards(precision: str) -> None:
    """Switch off what does not go with weights in shards. Raises UserError for float16, whose scaler would differ by process."""
    if training_precision(precision) == "float16":
        raise UserError("--precision float16 does not go with FSDP.", "Give --precision bfloat16 or float32.")
    if not cuda.is_available():  # torch frees gathered weights, and cannot where NumPy has seen them
        os.environ["BERT_KERNELS"] = "off"


def check_devices(processes: int) -> None:
    """Check that each process can have a GPU of its own, if they are to be used. Raises UserError if there are too few."""
    gpus = 0 if parse_flag_from_env("ACCELERATE_USE_CPU") else cuda.device_count()
    if 0 < gpus < processes:
        what = f"--processes {processes} needs as many GPUs, and this machine has {gpus}."
        raise UserError(what, f"Give --processes {gpus}, or set CUDA_VISIBLE_DEVICES to nothing, to train on the CPU.")


def disconnect() -> None:
    """Close the process group of several GPUs; that of CPUs ends with the process.

    Closing gloo here may deadlock: its thread, which holds the connection's lock, waits for the interpreter's.
    """
    if cuda.is_available():
        PartialState().destroy_process_group()


def describe_device(accelerator: Accelerator, precision: str) -> str:
    """The device in words: number, name and precision."""
    name = f"{accelerator.device.type}, {number_of(torch.get_num_threads(), 'thread')} of {os.cpu_count()} cores"
    if accelerator.device.type == "cuda":
        name = cuda.get_device_name(accelerator.device)
    processes = f"{accelerator.num_processes} × " if accelerator.num_processes > 1 else ""
    return f"{processes}{name}, {training_precision(precision)}"
