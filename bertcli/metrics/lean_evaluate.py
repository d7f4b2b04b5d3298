"""The package `evaluate`, imported without its pipelines, which import torch and transformers."""

import importlib
import sys
from types import ModuleType
from typing import Any

PIPELINES = ("evaluate.evaluator", "evaluate.evaluation_suite")


class _StandIn(ModuleType):
    """Has whatever name is imported from it."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self


def import_evaluate() -> Any:
    """Import `evaluate`; its evaluators and suites are imported when one of them is first used.

    Where it is imported already, or has no such modules in a later version, it is the whole package.
    """
    if "evaluate" in sys.modules:
        return sys.modules["evaluate"]
    stand_ins = {name: _StandIn(name) for name in PIPELINES}
    sys.modules.update(stand_ins)
    try:
        package: Any = importlib.import_module("evaluate")
    finally:
        for name in PIPELINES:
            sys.modules.pop(name, None)
    missing = {name: value.__name__ for name, value in vars(package).items() if isinstance(value, _StandIn)}
    for name in missing:
        delattr(package, name)

    def real(name: str) -> Any:  # PEP 562: called for a name that the package does not have yet
        if name not in missing:
            raise AttributeError(f"module 'evaluate' has no attribute '{name}'")
        for each, module in missing.items():
            value = getattr(importlib.import_module(module), each)
            setattr(package, each, value)
        return vars(package)[name]

    package.__getattr__ = real
    return package
