"""Importing torch and the models of transformers, which is said meanwhile; what no command uses of the models is left out."""

import importlib
import os
import sys
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from itertools import product
from types import ModuleType
from typing import Any

MODELS = "transformers.modeling_utils"
HEADS = ("transformers.generation.utils", "transformers.modeling_layers")  # which every BERT imports
COMPILER = "torch._dynamo"
# What transformers is told is not installed, which it supports. Our training loop imports Accelerate itself.
PACKAGES = ("torch_distributed", "accelerate", "scipy", "torchaudio", "torchvision")
NOT_USED = tuple(f"is_{name}_available" for name in PACKAGES)


class _FirstImport(MetaPathFinder):
    """An import hook for the first import of a module, which `run` makes; as that takes seconds, it is said meanwhile."""

    def __init__(self, name: str, run: Callable[[Callable[[ModuleType], None], ModuleType], None]) -> None:
        self.name, self.run = name, run

    def find_spec(self, module: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if module != self.name:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(module)
        if spec and spec.loader:
            spec.loader.exec_module = partial(self._import, spec.loader.exec_module)  # type: ignore[method-assign]
        return spec

    def _import(self, run: Callable[[ModuleType], None], module: ModuleType) -> None:
        from bertcli.training.progress import doing

        with doing(f"loading {self.name.partition('.')[0]}"):
            self.run(run, module)


class _Compiler(ModuleType):
    """Takes the place of torch._dynamo during an import, which uses its decorators and some of its modules, but not the rest."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda function=None, *_, **__: function or (lambda function: function)


def _import_quickly(run: Callable[[ModuleType], None], module: ModuleType) -> None:
    import torch

    utils = [importlib.import_module(f"transformers.utils{name}") for name in ("", ".import_utils")]
    try:
        with ExitStack() as stack:
            for place, name in product(utils, NOT_USED):
                stack.enter_context(_replaced(vars(place), name, lambda *_: False))
            if COMPILER not in sys.modules and (spec := find_spec(COMPILER)):
                compiler = _Compiler(COMPILER)
                compiler.__path__ = spec.submodule_search_locations or []
                stack.callback(_forget_parts)
                stack.enter_context(_replaced(sys.modules, COMPILER, compiler))
                stack.enter_context(_replaced(vars(torch), "_dynamo", compiler))
            run(module)
            for name in HEADS:
                importlib.import_module(name)
    except Exception:  # a version of transformers that does use them
        run(module)


def _forget_parts() -> None:
    """Have the compiler, when it is imported, import what was imported into its place."""
    for name in [name for name in sys.modules if name.startswith(f"{COMPILER}.")]:
        del sys.modules[name]


@contextmanager
def _replaced(names: MutableMapping[str, Any], name: str, value: object) -> Iterator[None]:
    original = {name: names[name]} if name in names else {}
    names[name] = value
    try:
        yield
    finally:
        del names[name]
        names.update(original)


def start_quickly() -> None:
    """Install the import hooks, unless this is one of several processes, which may need all of it."""
    if os.environ.get("WORLD_SIZE", "1") == "1" and MODELS not in sys.modules:
        of_torch = _FirstImport("torch", lambda run, module: run(module))
        sys.meta_path[:0] = [_FirstImport(MODELS, _import_quickly), of_torch]
