"""Pre-train, fine-tune, evaluate and use BERT."""

import importlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bertcli.lifecycle.build_vocab import build_vocab
    from bertcli.lifecycle.convert import convert
    from bertcli.lifecycle.demo import demo
    from bertcli.lifecycle.evaluate import evaluate
    from bertcli.lifecycle.export import export
    from bertcli.lifecycle.finetune import finetune
    from bertcli.lifecycle.make_pretraining_data import make_pretraining_data
    from bertcli.lifecycle.predict import predict
    from bertcli.lifecycle.pretrain import pretrain
    from bertcli.lifecycle.serve import serve
    from bertcli.lifecycle.submit import submit

__version__ = "0.1.0"
# Each is the function of this name in bertcli.lifecycle.<name>, imported at its first use.
__all__ = ["build_vocab", "convert", "demo", "evaluate", "finetune", "make_pretraining_data", "predict", "pretrain"]
__all__ += ["export", "serve", "submit"]

say = logging.getLogger("bertcli").info  # to the user: what was chosen, cut, skipped or inferred


@contextmanager
def quietly() -> Iterator[None]:
    """Print no notes meanwhile."""
    logger = logging.getLogger("bertcli")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(importlib.import_module(f"bertcli.lifecycle.{name}"), name)
    raise AttributeError(f"module `bertcli` has no attribute `{name}`")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
