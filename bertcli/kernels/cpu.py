"""What a CPU does by kernels of our own (models/kernels.py), which are imported when the first tensors fit them."""

from functools import cache
from importlib.util import find_spec
from types import ModuleType

import torch
from torch import Tensor

PRECISIONS = (torch.float32, torch.bfloat16)
MANY = 512  # tokens


def are_many(tokens: int) -> bool:
    """Whether a pass over tokens saves, where it makes no gradient, as much as it takes to load the kernels."""
    return torch.is_grad_enabled() or tokens >= MANY


def fits(*tensors: Tensor) -> bool:
    """Whether the kernels take the tensors: on a CPU, all of one precision, and not to be cast by autocast."""
    dtype = tensors[0].dtype
    return (
        all(each.device.type == "cpu" and each.dtype == dtype for each in tensors)
        and dtype in PRECISIONS
        and not torch.is_autocast_enabled("cpu")
        and _has_compiler()
    )


def fits_many(states: Tensor, *others: Tensor) -> bool:
    """Whether kernels take them, and the tokens of states, [..., H], are not too few."""
    return are_many(states.shape[:-1].numel()) and fits(states, *others)


def fits_tiles(states: Tensor) -> bool:
    """Whether the matrix units take the heads of states, [T, P, A, D], and the tokens are not too few."""
    suits = states.dtype == torch.bfloat16 and states.shape[-1] % 32 == 0
    return suits and fits_many(states[:, 0, 0]) and _has_tiles()


@cache
def has_bfloat16_library() -> bool:
    """Whether oneDNN is there and multiplies in bfloat16, for which an x86 CPU needs AVX-512 or the like."""
    has_library: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return has_library and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def rows(states: Tensor) -> Tensor:
    """[..., H] to [T, H], as kernels take it; what is contiguous is not copied."""
    return states.reshape(-1, states.shape[-1])


@cache
def _has_compiler() -> bool:
    return find_spec("numba") is not None


@cache
def _has_tiles() -> bool:
    """Whether there are matrix units, which Linux gives a process that asks."""
    return torch.cpu._is_amx_tile_supported() and torch.cpu._init_amx()


@cache
def kernels() -> ModuleType:
    """The module of the kernels."""
    from bertcli.kernels import loops

    return loops


@cache
def inference_kernels() -> ModuleType:
    """Those of a pass without a gradient."""
    from bertcli.kernels import inference_loops

    return inference_loops
