"""The device, precision and memory of a run."""

import ctypes
import os
import platform
import resource
import sys
from functools import cache
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator, PartialState
from accelerate.state import AcceleratorState
from accelerate.utils import DistributedDataParallelKwargs, patch_environment
from torch import cuda
from torch.backends import mps

from bertcli import say
from bertcli.errors import UserError, first_line
from bertcli.kernels import multiplies_bfloat16
from bertcli.training.processes.shards import is_sharded

# bfloat16 needs nothing of Accelerate: a working copy of the model runs in it (models/working_copy.py).
ACCELERATE_NAMES = {"float32": "no", "bfloat16": "no", "float16": "fp16"}
BFLOAT16_HIDDEN_SIZE = 256  # of mini; products of tiny lose by it
CPU_MICRO_BATCH_TOKENS = 8192
CPU_INFERENCE_TOKENS = 4096  # fits a cache better; in training, the cost of all weights' gradients favours more
GPU_MICRO_BATCH_TOKENS = 65536
TOKENS_PER_GIBIBYTE = 512  # of a GPU's memory: large keeps 0.8 MB per token for the backward pass
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # malloc.h of glibc


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


def disconnect() -> None:
    """Close the process group of several GPUs; that of CPUs ends with the process.

    Closing gloo here may deadlock: this thread holds the interpreter's lock while gloo's thread, which holds that of the
    connection, waits for it.
    """
    if cuda.is_available():
        PartialState().destroy_process_group()


def keep_freed_memory() -> None:
    """Keep freed memory for the next pass instead of returning it to the system, which would clear each page again.

    This needs glibc; elsewhere nothing changes. With AMX it saved a sixth of a step of base.
    """
    if platform.libc_ver()[0] == "glibc":
        library = ctypes.CDLL(None)
        library.mallopt(M_MMAP_MAX, 0)  # otherwise arrays of over 32 MB are mapped one by one
        library.mallopt(M_TRIM_THRESHOLD, -1)


def resolve_precision(precision: str) -> str:
    """The precision of a model: as asked; for auto, bfloat16 on a GPU that supports it, else float32.

    Raises UserError for float16 without a GPU, where it is only emulated.
    """
    if precision == "float16" and not cuda.is_available():
        raise UserError("--precision float16 needs a GPU.", "Give --precision bfloat16 or float32.")
    if precision == "bfloat16" and not (cuda.is_available() or multiplies_bfloat16()):
        _say_emulated()
    if precision != "auto":
        return precision
    return "bfloat16" if cuda.is_available() and cuda.is_bf16_supported() else "float32"


@cache
def _say_emulated() -> None:
    say("this CPU only emulates bfloat16, which may take a hundred times as long: --precision float32 is faster")


def training_precision(precision: str, hidden_size: int = BFLOAT16_HIDDEN_SIZE) -> str:
    """As `resolve_precision`, but auto is also bfloat16 on a CPU that multiplies in it, if the model is large enough."""
    if precision == "auto" and not cuda.is_available() and hidden_size >= BFLOAT16_HIDDEN_SIZE and _cpu_has_bfloat16():
        return "bfloat16"
    return resolve_precision(precision)


def _cpu_has_bfloat16() -> bool:
    return torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported()


def inference_device() -> torch.device:
    """The device of inference: the GPU if there is one."""
    return torch.device("cuda" if cuda.is_available() else "cpu")


def micro_batch_tokens(asked: int | None) -> int:
    """Tokens in one forward pass: as asked, else by device."""
    if asked or not cuda.is_available():
        return asked or CPU_MICRO_BATCH_TOKENS
    memory = cuda.get_device_properties(cuda.current_device()).total_memory
    return min(GPU_MICRO_BATCH_TOKENS, memory * TOKENS_PER_GIBIBYTE // 2**30)


def inference_tokens() -> int:
    """Tokens in one forward pass without a backward one."""
    return micro_batch_tokens(None if cuda.is_available() else CPU_INFERENCE_TOKENS)


def describe_device(accelerator: Accelerator, precision: str) -> str:
    """The device in words: number, name and precision."""
    threads = torch.get_num_threads()
    name = f"{accelerator.device.type}, {threads} thread{'s' * (threads != 1)} of {os.cpu_count()} cores"
    if accelerator.device.type == "cuda":
        name = cuda.get_device_name(accelerator.device)
    processes = f"{accelerator.num_processes} × " if accelerator.num_processes > 1 else ""
    return f"{processes}{name}, {training_precision(precision)}"


def memory_bytes(device: torch.device) -> int:
    """The most memory that this process has taken so far: of the GPU, else of the machine."""
    if device.type == "cuda":
        return cuda.max_memory_allocated(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
