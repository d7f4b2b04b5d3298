"""Pre-train, fine-tune, evaluate and use BERT."""

import importlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bertcli.lifecycle.baseline import baseline as baseline
    from bertcli.lifecycle.build_vocab import build_vocab as build_vocab
    from bertcli.lifecycle.convert import convert as convert
    from bertcli.lifecycle.demo import demo as demo
    from bertcli.lifecycle.distill import distill as distill
    from bertcli.lifecycle.evaluate import evaluate as evaluate
    from bertcli.lifecycle.export import export as export
    from bertcli.lifecycle.finetune import finetune as finetune
    from bertcli.lifecycle.make_pretraining_data import make_pretraining_data as make_pretraining_data
    from bertcli.lifecycle.predict import predict as predict
    from bertcli.lifecycle.pretrain import pretrain as pretrain
    from bertcli.lifecycle.report import report as report
    from bertcli.lifecycle.reproduce import reproduce as reproduce
    from bertcli.lifecycle.serve import serve as serve
    from bertcli.lifecycle.similar import similar as similar
    from bertcli.lifecycle.submit import submit as submit

__version__ = "0.1.0"
# A command has a file in cli/ and one in lifecycle/, whose function of the same name is imported here at its first use.
_cli, _lifecycle = (
    {path.stem for path in (Path(__file__).parent / room).glob("[a-z]*.py")} for room in ("cli", "lifecycle")
)
__all__ = sorted(_cli & _lifecycle)

say = logging.getLogger("bertcli").info  # to the user: what was chosen, cut, skipped or inferred


def number_of(count: int, noun: str) -> str:
    """A count in words: `1 file`, `2,000 files`."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def in_millions(count: int) -> str:
    """A large count in words: `2.4 M`; up to a million, all its digits."""
    return f"{count / 1e6:,.1f} M" if count > 1e6 else f"{count:,}"


def without_exponent(value: float, digits: int = 6, rounding: str | None = None) -> str:
    """A number of at most so many significant digits, such as `75,000.5` or `0.00012`; `rounding` as in the module decimal."""
    from decimal import Context

    return f"{Context(digits, rounding).create_decimal(repr(float(value))):,f}".removesuffix(".0")


@contextmanager
def quietly() -> Iterator[None]:
    """Print no notes inside the context."""
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
