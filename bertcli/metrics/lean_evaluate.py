"""The package `evaluate`, imported without its pipelines, which import torch and transformers."""

import importlib
import sys
from types import ModuleType
from typing import Any

PIPELINES = ("evaluate.evaluator", "evaluate.evaluation_suite")


class _StandIn(ModuleType):
    """Has every name that is imported from it."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self


def import_evaluate() -> Any:
    """Import `evaluate`; its evaluators and suites are imported when the first of them is used."""
    if "evaluate" in sys.modules:
        return sys.modules["evaluate"]
    sys.modules.update({name: _StandIn(name) for name in PIPELINES})
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
            setattr(package, each, getattr(importlib.import_module(module), each))
        return vars(package)[name]

    package.__getattr__ = real
    return package
