"""Which device and precision a run uses, said in one line."""

import os
from functools import cache
from pathlib import Path

import torch
from accelerate import Accelerator, PartialState
from accelerate.state import AcceleratorState
from accelerate.utils import DistributedDataParallelKwargs

from bertcli import say
from bertcli.errors import UserError
from bertcli.kernels import multiplies_bfloat16

# bfloat16 needs nothing of Accelerate: a working copy of the model runs in it (models/working_copy.py).
ACCELERATE_NAMES = {"float32": "no", "bfloat16": "no", "float16": "fp16"}
BFLOAT16_HIDDEN_SIZE = 256  # of mini; products of tiny lose by it
CPU_MICRO_BATCH_TOKENS = 8192
CPU_INFERENCE_TOKENS = 4096  # what fits a cache better; a training pass has the gradients of all weights to pay for
GPU_MICRO_BATCH_TOKENS = 65536
TOKENS_A_GIBIBYTE = 512  # of a GPU's memory; for its backward pass, large keeps 0.8 MB a token


def make_accelerator(precision: str, track: str | None, folder: Path, unused: bool = False) -> Accelerator:
    """Make the Accelerator of a run; `unused` weights are those that a loss may leave without a gradient."""
    handlers = [DistributedDataParallelKwargs(find_unused_parameters=unused, gradient_as_bucket_view=True)]
    AcceleratorState._reset_state()  # it is one for the whole process, and an earlier run may have had another precision
    try:
        return Accelerator(
            mixed_precision=ACCELERATE_NAMES[training_precision(precision)],
            cpu=not torch.cuda.is_available() and not torch.backends.mps.is_available(),
            log_with=track,
            project_dir=str(folder / "tracking"),
            kwargs_handlers=handlers,
        )
    except (ValueError, ImportError) as error:
        if track is None:
            raise
        raise UserError(
            f"--track {track} cannot be used: {str(error).splitlines()[0]}", f"Install it: pip install {track}"
        ) from None


def disconnect() -> None:
    """End the connection of several GPUs; that of CPUs ends with the process.

    Whoever ends it here holds the interpreter's lock, which gloo's thread may want for what it has just sent, while it
    holds that of the connection: they would wait for each other.
    """
    if torch.cuda.is_available():
        PartialState().destroy_process_group()


def resolve_precision(precision: str) -> str:
    """What a model is run in: bfloat16 on a GPU that has it, float32 elsewhere, unless one is asked for.

    Raises:
        UserError: for float16 without a GPU, where it is only emulated.
    """
    if precision == "float16" and not torch.cuda.is_available():
        raise UserError("--precision float16 needs a GPU.", "Give --precision bfloat16 or float32.")
    if precision == "bfloat16" and not (torch.cuda.is_available() or multiplies_bfloat16()):
        _say_emulated()
    if precision != "auto":
        return precision
    return "bfloat16" if torch.cuda.is_available() and torch.cuda.is_bf16_supported() else "float32"


@cache
def _say_emulated() -> None:
    say("this CPU only emulates bfloat16, which may take a hundred times as long: --precision float32 is faster")


def training_precision(precision: str, hidden_size: int = BFLOAT16_HIDDEN_SIZE) -> str:
    """As `resolve_precision`, and bfloat16 on a CPU that multiplies in it too.

    Where batches are small, as in fine-tuning and prediction, `hidden_size` says whether the products gain by it.
    """
    gains = _cpu_has_bfloat16() and hidden_size >= BFLOAT16_HIDDEN_SIZE
    if precision == "auto" and not torch.cuda.is_available() and gains:
        return "bfloat16"
    return resolve_precision(precision)


def _cpu_has_bfloat16() -> bool:
    return torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported()


def inference_device() -> torch.device:
    """Where a model is run without training: the GPU where there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def micro_batch_tokens(asked: int | None) -> int:
    """Tokens in one forward pass: as asked, else what suits the device."""
    if asked or not torch.cuda.is_available():
        return asked or CPU_MICRO_BATCH_TOKENS
    memory = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
    return min(GPU_MICRO_BATCH_TOKENS, memory * TOKENS_A_GIBIBYTE // 2**30)


def inference_tokens() -> int:
    """Tokens in one forward pass without a backward one."""
    return micro_batch_tokens(None if torch.cuda.is_available() else CPU_INFERENCE_TOKENS)


def describe_device(accelerator: Accelerator, precision: str) -> str:
    """The device for the card: its name, how many, and the precision."""
    if accelerator.device.type == "cuda":
        name = torch.cuda.get_device_name(accelerator.device)
    else:
        name = f"{accelerator.device.type}, {torch.get_num_threads()} threads of {os.cpu_count()} cores"
    processes = f"{accelerator.num_processes} × " if accelerator.num_processes > 1 else ""
    return f"{processes}{name}, {training_precision(precision)}"
