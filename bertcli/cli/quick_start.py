"""The models of transformers, imported by a command without what it never uses of them, in two thirds of the seconds."""

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

MODELS, HEADS = "transformers.modeling_utils", "transformers.generation.utils"  # which every BERT imports
COMPILER = "torch._dynamo"
# transformers knows machines without processes that share weights, Accelerate or SciPy; what trains imports Accelerate itself.
NOT_USED = ("is_torch_distributed_available", "is_accelerate_available", "is_scipy_available")


class _QuickStart(MetaPathFinder):
    """Finds the module of all models, and has it imported quickly."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != MODELS:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec and spec.loader:
            spec.loader.exec_module = partial(_import_quickly, spec.loader.exec_module)  # type: ignore[method-assign]
        return spec


class _Compiler(ModuleType):
    """Stands for torch._dynamo in an import, which uses its decorators, and modules of it that do without the rest."""

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
                stack.enter_context(_replaced(sys.modules, COMPILER, compiler))
                stack.enter_context(_replaced(vars(torch), "_dynamo", compiler))
            run(module)
            importlib.import_module(HEADS)
    except Exception:  # of a version of transformers that needs them
        run(module)


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
    """Have the models of transformers imported quickly, unless several processes share this run."""
    if os.environ.get("WORLD_SIZE", "1") == "1" and MODELS not in sys.modules:
        sys.meta_path.insert(0, _QuickStart())
