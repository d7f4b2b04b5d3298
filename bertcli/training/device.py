"""The device, precision and memory of a run."""

import ctypes
import platform
import resource
import sys
from collections.abc import Collection
from functools import cache

import torch
from torch import cuda
from transformers import PreTrainedModel

from bertcli import say
from bertcli.errors import UserError
from bertcli.kernels import keeps_no_scores, multiplies_bfloat16

BFLOAT16_HIDDEN_SIZE = 256  # of mini; products of tiny lose by it
CPU_MICRO_BATCH_TOKENS = 8192
CPU_INFERENCE_TOKENS = 4096  # fits a cache better; in training, the cost of all weights' gradients favours more
GPU_MICRO_BATCH_TOKENS = 65536
TOKENS_PER_GIBIBYTE = 512  # of a GPU's memory, where attention keeps scores of pairs of tokens for the backward pass
BYTES_PER_STATE, MOST_TOKENS = 48, 131072  # where it keeps none: of each token, layer and hidden unit; large takes 34
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # malloc.h of glibc


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
    return "bfloat16" if cuda.is_available() and cuda.is_bf16_supported(including_emulation=False) else "float32"


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


def micro_batch_tokens(asked: int | None, models: Collection[PreTrainedModel] = ()) -> int:
    """Tokens in one forward pass: as asked, else by device, and on a GPU by what the models keep for the backward pass."""
    if asked or not cuda.is_available():
        return asked or CPU_MICRO_BATCH_TOKENS
    memory = cuda.get_device_properties(cuda.current_device()).total_memory
    tokens = min(GPU_MICRO_BATCH_TOKENS, memory * TOKENS_PER_GIBIBYTE // 2**30)
    if models and all(keeps_no_scores(model) for model in models):
        configs = [model.config for model in models]
        # Logits take a byte for each token and word of the vocabulary: a sixth of the tokens have three copies.
        sizes = (BYTES_PER_STATE * each.num_hidden_layers * each.hidden_size + each.vocab_size for each in configs)
        tokens = max(tokens, min(MOST_TOKENS, memory // sum(sizes)))
    return tokens


def inference_tokens() -> int:
    """Tokens in one forward pass without a backward one."""
    return micro_batch_tokens(None if cuda.is_available() else CPU_INFERENCE_TOKENS)


def memory_bytes(device: torch.device) -> int:
    """The most memory that this process has taken so far: of the GPU, else of the machine."""
    if device.type == "cuda":
        return cuda.max_memory_allocated(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
