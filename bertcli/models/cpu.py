"""What a CPU does by kernels of our own (models/kernels.py), which are imported when the first tensors fit them."""

from functools import cache
from importlib.util import find_spec
from types import ModuleType

import torch
from torch import Tensor

PRECISIONS = (torch.float32, torch.bfloat16)


def fits(*tensors: Tensor) -> bool:
    """Whether the kernels take the tensors: on a CPU, all of one precision, and not to be cast by autocast."""
    dtype = tensors[0].dtype
    return (
        all(each.device.type == "cpu" and each.dtype == dtype for each in tensors)
        and dtype in PRECISIONS
        and not torch.is_autocast_enabled("cpu")
        and _has_compiler()
    )


def rows(states: Tensor) -> Tensor:
    """[..., H] to [T, H], as kernels take it; what is contiguous is not copied."""
    return states.reshape(-1, states.shape[-1])


@cache
def _has_compiler() -> bool:
    return find_spec("numba") is not None


@cache
def kernels() -> ModuleType:
    """The module of the kernels."""
    from bertcli.models import kernels

    return kernels


@cache
def inference_kernels() -> ModuleType:
    """Those of a pass without a gradient."""
    from bertcli.models import inference_kernels

    return inference_kernels
