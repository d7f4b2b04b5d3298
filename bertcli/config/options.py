"""How an option is declared and checked: its name, type, default, range and help."""

import types
from dataclasses import MISSING, Field, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, Self, TypeVar, Union, get_args, get_origin, get_type_hints

from bertcli.errors import UserError, unknown


def option(default: Any, text: str, *, minimum: float | None = None, maximum: float | None = None, **more: str) -> Any:
    """Declare an option; its field name is the flag, the recipe key and the saved key."""
    metadata = {"help": text, "minimum": minimum, "maximum": maximum, **more}
    if isinstance(default, list):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


def argument(default: Any, text: str, metavar: str) -> Any:
    """Declare the positional argument of a command."""
    return option(default, text, metavar=metavar)


@dataclass(kw_only=True)
class Config:
    """What every command understands."""

    dry_run: bool = option(False, "Say what would be done, check that it can be, and write nothing.")

    def __post_init__(self) -> None:
        """Check every value: type, choice and range.

        Raises:
            UserError: naming the option and what it takes.
        """
        hints = get_type_hints(type(self))
        for declared in fields(self):
            value = _typed(hints[declared.name], getattr(self, declared.name), flag(declared))
            _check_range(declared, value)
            setattr(self, declared.name, value)

    @classmethod
    def build(cls, given: object, options: dict[str, Any]) -> Self:
        """Make the configuration of a core function from a ready one or from its arguments in Python."""
        if isinstance(given, cls):
            return cls.from_values({**asdict(given), **options})
        names = [f.name for f in fields(cls) if "metavar" in f.metadata]
        first = {names[0]: given} if given is not None and names else {}
        return cls.from_values({**first, **options})

    @classmethod
    def from_values(cls, values: dict[str, Any], origin: str = "option") -> Self:
        """Make the configuration from names and values, as a recipe or a saved run spells them."""
        known = {f.name: f for f in fields(cls)}
        named = {}
        for key, value in values.items():
            name = key.replace("-", "_")
            name = name if name in known else f"{name}_"
            if name not in known:
                raise unknown(origin, key, [n.rstrip("_").replace("_", "-") for n in known])
            named[name] = value
        return cls(**named)

    def values(self) -> dict[str, Any]:
        """The resolved values by their public names, ready for a recipe."""
        return {name.rstrip("_"): value for name, value in asdict(self).items() if name != "dry_run"}


ConfigType = TypeVar("ConfigType", bound=Config)


def flag(declared: Field[Any]) -> str:
    """The option's name on the command line: `max_seq_length` is `--max-seq-length`."""
    name = declared.name.rstrip("_").replace("_", "-")
    return str(declared.metadata["metavar"]) if "metavar" in declared.metadata else f"--{name}"


def default_of(declared: Field[Any]) -> Any:
    """The declared default value."""
    return declared.default if declared.default_factory is MISSING else declared.default_factory()


def _typed(hint: Any, value: Any, name: str) -> Any:
    """Return the value as its type, or say what the option takes."""
    if get_origin(hint) in (Union, types.UnionType):
        if value is None:
            return None
        hint = next(part for part in get_args(hint) if part is not type(None))
    if get_origin(hint) is Literal:
        if value not in get_args(hint):
            raise unknown(f"value for {name}:", value, get_args(hint))
        return value
    if get_origin(hint) is list:
        return [str(item) for item in (value if isinstance(value, (list, tuple)) else [value])]
    try:
        return _converted(hint, value)
    except (TypeError, ValueError, OverflowError):
        kind = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}[hint]
        raise UserError(f"{name} takes {kind}, not `{value}`.", f"Give {name} {kind}.") from None


def _converted(hint: type, value: Any) -> Any:
    if hint is bool and not isinstance(value, bool):
        raise TypeError
    if hint is int:
        whole = int(float(value)) if not isinstance(value, int) else value
        if isinstance(value, bool) or float(value) != whole:
            raise ValueError
        return whole
    if hint is str and not isinstance(value, (str, int, float, Path)):
        raise TypeError
    return hint(value)


def _check_range(declared: Field[Any], value: Any) -> None:
    low, high = declared.metadata["minimum"], declared.metadata["maximum"]
    if value is not None and low is not None and not value >= low:
        raise UserError(f"{flag(declared)} is {value}; the least is {low}.", f"Give {flag(declared)} {low} or more.")
    if value is not None and high is not None and not value <= high:
        raise UserError(f"{flag(declared)} is {value}; the most is {high}.", f"Give {flag(declared)} {high} or less.")
