"""An option: its name, type, default, range, choices and help, declared once."""

import types
from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, asdict, dataclass, field, fields
from math import inf, isfinite
from operator import ge, le
from pathlib import Path
from typing import Any, Self, TypeVar, get_args, get_origin, get_type_hints

from bertcli.errors import UserError, unknown

Choices = Iterable[str] | Callable[[], Iterable[str]]
TAKEN: dict[type, Any] = {bool: bool, str: str | int | float | Path}
TYPES = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


def option(default: Any, text: str, *, minimum: float = -inf, choices: Choices = (), **more: Any) -> Any:
    """Declare an option; its field name is the flag, the recipe key and the saved key.

    Choices are the names of a table, or a function that returns them; `{choices}` in the help stands for them. `more` is a
    `maximum`, or a `metavar`, which makes the option a positional argument of the command.
    """
    metadata = {"help": text, "minimum": minimum, "maximum": inf, "choices": choices, "metavar": "", **more}
    if isinstance(default, list):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(kw_only=True)
class Config:
    """Options of every command."""

    dry_run: bool = option(False, "Check the request and print what would be done, without writing anything.")

    def __post_init__(self) -> None:
        """Check type, choice and range of every value. Raises UserError, which names the option and what it takes."""
        hints = get_type_hints(type(self))
        for declared in fields(self):
            setattr(self, declared.name, _checked(declared, hints[declared.name], getattr(self, declared.name)))

    @classmethod
    def build(cls, given: object, options: dict[str, Any]) -> Self:
        """Make the configuration of a core function from a ready one or from its arguments in Python."""
        if isinstance(given, cls):
            return cls.from_values({**asdict(given), **options})
        names = [declared.name for declared in fields(cls) if declared.metadata["metavar"]]
        first = {names[0]: given} if given is not None and names else {}
        return cls.from_values({**first, **options})

    @classmethod
    def from_values(cls, values: dict[str, Any], origin: str = "option") -> Self:
        """Make the configuration from names and values, as a recipe or a saved run spells them."""
        known = {declared.name.rstrip("_").replace("_", "-"): declared.name for declared in fields(cls)}
        named = {}
        for key, value in values.items():
            if (spelled := key.rstrip("_").replace("_", "-")) not in known:
                raise unknown(origin, key, known)
            named[known[spelled]] = value
        return cls(**named)

    def values(self) -> dict[str, Any]:
        """The resolved values by their public names, ready for a recipe."""
        return {name.rstrip("_"): value for name, value in asdict(self).items() if name != "dry_run"}


ConfigType = TypeVar("ConfigType", bound=Config)


def flag(declared: Field[Any]) -> str:
    """The option on the command line: `max_seq_length` is `--max-seq-length`."""
    return declared.metadata["metavar"] or f"--{declared.name.rstrip('_').replace('_', '-')}"


def default_of(declared: Field[Any]) -> Any:
    """The declared default value."""
    return declared.default if declared.default_factory is MISSING else declared.default_factory()


def choices_of(declared: Field[Any]) -> list[str]:
    """The values that the option takes; none if it takes any."""
    choices: Choices = declared.metadata["choices"]
    return list(choices() if callable(choices) else choices)


def help_of(declared: Field[Any]) -> str:
    """The declared help, with the names of the choices."""
    text: str = declared.metadata["help"]
    return text.replace("{choices}", ", ".join(choices_of(declared)))


def _checked(declared: Field[Any], hint: Any, value: Any) -> Any:
    """The value as its type. Raises UserError if it has another type, is none of the choices or is out of range."""
    name, low, high = flag(declared), declared.metadata["minimum"], declared.metadata["maximum"]
    if value is None and types.NoneType in get_args(hint):
        return None
    if isinstance(hint, types.UnionType):
        hint = get_args(hint)[0]  # as in `int | None`
    if get_origin(hint) is list:
        return list(map(str, value if isinstance(value, (list, tuple)) else [value]))
    try:
        value = _converted(hint, value)
    except (TypeError, ValueError, OverflowError):
        raise UserError(f"{name} takes {TYPES[hint]}, not `{value}`.", f"Give {name} {TYPES[hint]}.") from None
    choices = choices_of(declared)
    if choices and value not in choices:
        raise unknown(f"value for {name}:", value, choices)
    for word, end, fits, other in (("minimum", low, ge, "more"), ("maximum", high, le, "less")):
        if isfinite(end) and not fits(value, end):
            raise UserError(f"{name} is {value}; the {word} is {end}.", f"Give {name} {end} or {other}.")
    return value


def _converted(hint: type, value: Any) -> Any:
    if hint in TAKEN and not isinstance(value, TAKEN[hint]):
        raise TypeError
    if hint is int:
        whole = value if isinstance(value, int) else int(float(value))
        if isinstance(value, bool) or float(value) != whole:
            raise ValueError
        return whole
    return hint(value)
