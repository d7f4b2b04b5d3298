"""Faster implementations of functions in models/ and the optimizer, imported only from here."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from importlib import import_module
from math import inf
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import torch
from joblib import cpu_count
from torch import Tensor, nn

if "OMP_NUM_THREADS" not in os.environ:  # torch counts the machine's cores; a container may have the time of fewer
    torch.set_num_threads(min(torch.get_num_threads(), cpu_count()))

P = ParamSpec("P")
R = TypeVar("R")
MODULES = ("cpu", "updates", "products", "gpu")  # with functions that are named like their plain twins


def are_on() -> bool:
    """Whether kernels run: unless BERT_KERNELS=off."""
    return os.environ.get("BERT_KERNELS", "on").lower() != "off"


@contextmanager
def switched_off() -> Iterator[None]:
    """A context in which the plain functions run."""
    before = os.environ.get("BERT_KERNELS")
    os.environ["BERT_KERNELS"] = "off"
    try:
        yield
    finally:
        os.environ.pop("BERT_KERNELS")
        if before is not None:
            os.environ["BERT_KERNELS"] = before


def faster(plain: Callable[P, R]) -> Callable[P, R]:
    """Call the kernel of the same name, one of MODULES, where it takes the arguments, else the plain function.

    A kernel returns NotImplemented where it does not; `__wrapped__` is the plain function.
    """

    @wraps(plain)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        for kernel in _kernels(plain.__name__) if are_on() else ():
            found: Any = kernel(*args, **kwargs)
            if found is not NotImplemented:
                return cast(R, found)
        return plain(*args, **kwargs)

    return call


@cache
def _kernels(name: str) -> list[Callable[..., Any]]:
    modules = [import_module(f"bertcli.kernels.{module}") for module in MODULES]
    return [getattr(module, name) for module in modules if hasattr(module, name)]


def load(elements: float = inf) -> None:
    """Load the CPU's kernels at once, if predictions will pass over so many elements that this pays; otherwise when it does."""
    cpu = import_module("bertcli.kernels.cpu")
    if are_on() and not torch.cuda.is_available() and elements >= cpu.WORTH_LOADING:
        cpu.has_compiler()


def fuse(model: nn.Module, attend: Callable[..., Tensor]) -> None:
    """Have the layers of a packed model with keyed dropout pass over their arrays once; weights and names stay.

    `attend` is the attention of packed batches (models/packed.py).
    """
    if are_on():
        from bertcli.kernels.layers import fuse_layers

        fuse_layers(model, attend)


def attends_alone(attention: nn.Module, tokens: Tensor) -> bool:
    """Whether a layer's self-attention takes `one_each`, tokens which then attend alone, in a batch of tokens, [T]."""
    return getattr(attention, "may_attend_alone", lambda _: False)(tokens) is True


def chooses_rows(attention: nn.Module | None) -> bool:
    """Whether an attention, with the product after it, takes `choose`, a function of context and input that leaves rows out."""
    return getattr(attention, "chooses_rows", False) is True


def keeps_no_scores(model: nn.Module) -> bool:
    """Whether the attention of a model keeps no scores of pairs of tokens for the backward pass."""
    layers: list[Any] = [each for each in model.modules() if hasattr(each, "keeps_no_scores")]
    return bool(layers) and all(each.keeps_no_scores() for each in layers)


def prepack(model: nn.Module) -> None:
    """Put the weights of a packed model that only predicts in the order that a CPU multiplies them in.

    Of the CPUs without AVX-512, only AMD's: on others oneDNN, which reads this order, is the slower library in float32.
    """
    in_float32 = all(weight.dtype == torch.float32 for weight in model.parameters())
    if are_on() and (multiplies_bfloat16() or (in_float32 and is_amd())):
        from bertcli.kernels.layers import prepack_layers

        prepack_layers(model)


@cache
def multiplies_bfloat16() -> bool:
    """Whether oneDNN is there and multiplies in bfloat16, for which an x86 CPU needs AVX-512 or the like."""
    has_library: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return has_library and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


@cache
def is_amd() -> bool:
    """Whether oneDNN is there and the CPU is AMD's, of whose units MKL, torch's choice in float32, leaves some unused."""
    about = Path("/proc/cpuinfo")
    return about.exists() and "AuthenticAMD" in about.read_text() and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
