"""How numba compiles our loops for this CPU, and the folder that keeps what it compiled."""

import hashlib
import os
import platform
import threading
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import llvmlite
import numba
import numpy as np
import torch
from filelock import FileLock
from llvmlite import binding
from numba.core import event
from torch import Tensor

from bertcli import say
from bertcli.data.remote import user_cache


def digest(sources: Path, cpu: str) -> str:
    """A name for what machine code depends on: the files in a folder, the versions of the compiler, the CPU."""
    versions = (cpu, numba.__version__, llvmlite.__version__, platform.python_version())
    found = hashlib.sha256("\n".join(versions).encode())
    for path in sorted(sources.glob("*.py")):
        found.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()[:32]


def make_folder(cpu: str) -> Path | None:
    """Make the cache folder of these sources for a CPU; None, with a message, where it is not writable."""
    try:
        parent = Path(os.environ.get("NUMBA_CACHE_DIR") or user_cache() / "kernels")
        folder = parent.absolute() / digest(Path(__file__).parent, cpu)
        folder.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=folder).close()
    except (OSError, RuntimeError):  # RuntimeError: there is no home
        say("each run compiles its kernels: their cache folder is not writable; NUMBA_CACHE_DIR may name another")
        return None
    return folder


class _Listener(event.Listener):  # type: ignore[misc]
    """Says once that loops are compiled, for which the first run on a machine waits."""

    is_said = False

    def on_start(self, event: Any) -> None:
        """Before something is compiled."""
        if not self.is_said:
            self.is_said = True
            say("compiling loops for this CPU, which takes up to a minute; the next runs find them")

    def on_end(self, event: Any) -> None:
        """After it."""


# LLVM takes half of what AVX-512 has for vectors, unless told not to.
if (features := binding.get_host_cpu_features()).get("avx512f"):
    numba.config.CPU_FEATURES = features.flatten() + ",-prefer-256-bit"
# The OpenMP that torch brings is one for both: threads of two pools would wait in each other's way. When numba's start,
# they are as many as there are cores, and torch's with them.
numba.config.THREADING_LAYER_PRIORITY = ["omp", "tbb", "workqueue"]
threads = torch.get_num_threads()
numba.set_num_threads(1)
torch.set_num_threads(threads)
MOST_THREADS: int = numba.config.NUMBA_NUM_THREADS
_told = threading.local()  # how many threads numba was last told, by each thread that calls kernels
name = numba.config.CPU_NAME or binding.get_host_cpu_name()
folder = make_folder(f"{name} {numba.config.CPU_FEATURES or features.flatten()}")
numba.config.CACHE_DIR = str(folder or "")
if folder:
    event.register("numba:compile", _Listener())
# Sums may be reordered, or there would be no vectors of them; NaN stays NaN. A loop that sums must not write to an array:
# LLVM makes it twice, and takes vectors only where the arrays lie far enough apart, which differs from run to run.
FAST_MATH = {"reassoc", "contract", "nsz", "arcp"}
OPTIONS = {"fastmath": FAST_MATH, "error_model": "numpy", "cache": folder is not None, "nogil": True}

# What is done to a row: its arrays have one axis, and come as arguments, or LLVM makes no vectors. It becomes part of each
# kernel, or the process that compiles would call another copy, which may add up in another order, than those that load.
row_loop = numba.njit(forceinline=True, **OPTIONS)
exact_loop = numba.njit(forceinline=True, **OPTIONS | {"fastmath": False})  # rounds each operation as it is written
scalar = numba.njit(inline="always", **OPTIONS)  # what becomes part of such a loop


def kernel(function: Callable[..., Any]) -> Callable[..., None]:
    """Compile a loop over blocks that threads share, as many as torch has; it takes tensors for arrays."""
    compiled = numba.njit(parallel=True, **OPTIONS)(function)
    if compiled.stats.cache_path:
        compiled.compile = _in_turn(compiled)

    def call(*arguments: Any) -> None:
        threads = min(torch.get_num_threads(), MOST_THREADS)
        if getattr(_told, "threads", 0) != threads:
            _told.threads = threads
            numba.set_num_threads(threads)
        compiled(*map(_native, arguments))

    return call


def _native(argument: Any) -> Any:
    """An argument as a kernel takes it: a tensor as an array, and the names in a mask as uint32."""
    if isinstance(argument, tuple):
        return tuple(each.numpy().view(np.uint32) if isinstance(each, Tensor) else each for each in argument)
    return array(argument) if isinstance(argument, Tensor) else argument


def _in_turn(compiled: Any) -> Callable[..., Any]:
    """Have a process wait for another that compiles the same kernel, and load what it kept."""
    compile_or_load = compiled.compile
    lock = FileLock(Path(compiled.stats.cache_path) / f"{compiled.__module__}.{compiled.__name__}.lock")

    def compile_in_turn(signature: Any) -> Any:
        with lock:
            return compile_or_load(signature)

    return compile_in_turn


def array(tensor: Tensor) -> Any:
    """The NumPy array of a tensor, bfloat16 as uint16."""
    bits = tensor.detach() if tensor.requires_grad else tensor
    return (bits.view(torch.uint16) if bits.dtype == torch.bfloat16 else bits).numpy()
