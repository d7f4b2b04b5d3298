"""Functions that a GPU runs by kernels that torch compiles of them, which pass once over arrays."""

import os
import shutil
import sysconfig
from collections.abc import Callable
from functools import cache, wraps
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bertcli import say

BACKEND: Any = "inductor"  # of torch.compile


def is_on_gpu(states: Tensor) -> bool:
    """Whether states lie on a device other than the CPU."""
    return states.device.type != "cpu"


def compiles(states: Tensor) -> bool:
    """Whether functions of states are compiled: on a GPU, and not to be cast by autocast."""
    return states.is_cuda and not torch.is_autocast_enabled("cuda") and _has_compiler()


@cache
def _has_compiler() -> bool:
    """Whether there is what torch compiles with: Triton, which takes no old GPUs and makes C programs of Python's to call."""
    has_c = any(shutil.which(name) for name in (os.environ.get("CC", ""), "gcc", "clang"))
    has_headers = Path(sysconfig.get_path("include"), "Python.h").exists()
    has = bool(find_spec("triton")) and torch.cuda.get_device_capability() >= (7, 0) and has_c and has_headers
    if not has:
        say("this GPU could be faster: torch compiles for it where there are Triton, a C compiler and Python's headers")
    return has


def compiled(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Have a function compiled where states are on a GPU that can: once for any number of rows of all its tensors.

    Weights, which always have as many, come in tuples.
    """
    by = cache(lambda backend: torch.compile(function, dynamic=False, backend=backend))

    @wraps(function)
    def call(states: Tensor, *others: Any) -> Tensor:
        if not compiles(states):
            return function(states, *others)
        for each in (states, *others):
            if isinstance(each, Tensor) and each.dim():
                torch._dynamo.maybe_mark_dynamic(each, 0)
        found: Tensor = by(BACKEND)(states, *others)
        return found

    return call
