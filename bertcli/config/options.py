"""An option: its name, type, default, range, choices and help, declared once."""

import math
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Self, TypedDict, TypeVar, Union, Unpack, get_args, get_origin, get_type_hints

from bertcli.errors import UserError, flag_of, unknown

Choices = Iterable[str] | Callable[[], Iterable[str]]
TYPES = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


class Declared(TypedDict, total=False):
    """What an option takes. One with a metavar is a positional argument of the command."""

    minimum: float | None
    maximum: float | None
    choices: Choices | None  # the names of a table, or a function that returns them
    elsewhere: Mapping[str, str]  # names that are no choices -> what to type for them
    metavar: str
    needs: str  # another option, without which this one has no effect
    of: tuple[str, ...]  # the choices of the command's main option that it is for; empty: all
    is_text: bool  # its value is a text, which may be empty
    takes_url: bool  # it may be a place on another machine
    nargs: str  # as in argparse: "?" needs no value, which is then the first choice; "+" takes several values


MAX_SEED = 2**32 - 2  # of NumPy's generators and of gensim's, which takes the next
NOTHING = Declared(
    minimum=None,
    maximum=None,
    choices=None,
    elsewhere={},
    metavar="",
    needs="",
    of=(),
    is_text=False,
    nargs="",
    takes_url=False,
)
OUTPUTS = ("out", "output")


def option(default: Any, text: str, **declared: Unpack[Declared]) -> Any:
    """Declare an option; its field name is the flag, the recipe key and the saved key; `{choices}` in the help are its choices."""
    metadata: dict[str, Any] = {"help": text, **NOTHING, **declared}
    if isinstance(default, list):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(kw_only=True)
class Config:
    """Options of every command."""

    dry_run: bool = option(False, "Check the request and print what would be done, without writing anything.")

    def __post_init__(self) -> None:
        """Check every value: type, choice, range, and what it needs. Raises UserError, which names the option."""
        self.given = {each.name for each in fields(self) if getattr(self, each.name) != default_of(each)}
        hints = get_type_hints(type(self))
        for declared in fields(self):
            setattr(self, declared.name, _checked(declared, hints[declared.name], getattr(self, declared.name)))
        by_name = {each.name: each for each in fields(self)}
        for declared in fields(self):
            needed = by_name.get(declared.metadata["needs"])
            if needed and not getattr(self, needed.name) and getattr(self, declared.name) != default_of(declared):
                other = f"a {flag(needed)}" if needed.metadata["metavar"] else flag(needed)
                raise UserError(f"{flag(declared)} needs {other}.", "Leave it out, or give both.")

    @classmethod
    def build(cls, given: object, options: dict[str, Any]) -> Self:
        """Make the configuration of a core function from a ready one or from its arguments in Python."""
        if isinstance(given, cls):
            made = replace(given, **options)
            made.given = given.given | set(options)
            return made
        if hasattr(given, "columns"):  # of a DataFrame
            raise UserError("A table in memory is no file.", 'Write it to one: table.to_csv("rows.csv", index=False)')
        names = [declared.name for declared in fields(cls) if declared.metadata["metavar"]]
        named = {names[0]: joined(get_type_hints(cls)[names[0]], given)} if given and names else {}
        return cls.from_values({**named, **options})

    @classmethod
    def from_values(cls, values: dict[str, Any], origin: str = "option") -> Self:
        """Make the configuration from names and values, as a recipe or a saved run spells them."""
        known = [declared.name for declared in fields(cls)]
        named = {}
        for key, value in values.items():
            name = key.replace("-", "_")
            name = name if name in known else f"{name}_"
            if name not in known:
                see = "Or is it a recipe of another command?" if origin == "recipe key" else ""
                raise unknown(origin, key, [each.rstrip("_") for each in known], see)
            named[name] = value
        made = cls(**named)
        made.given = set(named)  # also those that equal their default
        return made

    def with_defaults(self, defaults: Mapping[str, Any]) -> Self:
        """The same options with other defaults in the place of those that were not given; a function makes one of the others."""
        own = {name: value for name, value in defaults.items() if name not in self.given}
        made = replace(self, **{name: value for name, value in own.items() if not callable(value)})
        made = replace(made, **{name: value(made) for name, value in own.items() if callable(value)})
        made.given = self.given
        return made

    def values(self) -> dict[str, Any]:
        """The resolved values by their public names, ready for a recipe."""
        return {name.rstrip("_"): value for name, value in asdict(self).items() if name != "dry_run"}


ConfigType = TypeVar("ConfigType", bound=Config)


def flag(declared: Field[Any]) -> str:
    """The option's name on the command line: `max_seq_length` is `--max-seq-length`."""
    return declared.metadata["metavar"] or flag_of(declared.name)


def typed(declared: Field[Any], value: Any) -> list[str]:
    """An option and its value as they are typed on the command line."""
    if declared.metadata["metavar"]:
        return [str(value)]
    if isinstance(value, bool):
        return [flag(declared) if value else f"--no-{flag(declared)[2:]}"]
    values = [str(each) for each in value] if isinstance(value, list) else [str(value)]
    if declared.metadata["nargs"]:
        return [flag(declared), *values]
    return [word for each in values for word in (flag(declared), each)]


def joined(hint: Any, value: Any) -> Any:
    """Several files as the one text that an option takes, separated by commas; any other value as it is."""
    return ",".join(map(str, value)) if hint is str and isinstance(value, list | tuple) else value


def default_of(declared: Field[Any]) -> Any:
    """The declared default value."""
    return declared.default if declared.default_factory is MISSING else declared.default_factory()


def choices_of(declared: Field[Any]) -> list[str]:
    """The names that the option takes; none where it takes any value."""
    choices: Choices = declared.metadata["choices"] or ()
    return list(choices() if callable(choices) else choices)


def help_of(declared: Field[Any]) -> str:
    """The declared help, with the names of the choices."""
    text: str = declared.metadata["help"]
    return text.replace("{choices}", ", ".join(choices_of(declared)))


def _checked(declared: Field[Any], hint: Any, value: Any) -> Any:
    """The value as its type; raises UserError if it has another, is none of the choices or is out of range."""
    name = flag(declared)
    _check_place(declared, value)
    if value in ("", [""]) and not (declared.metadata["is_text"] or value == default_of(declared)):
        raise UserError(f"{name} is empty.", f"Give {name} a value, or leave it out.")
    if get_origin(hint) in (Union, types.UnionType):
        if value is None:
            return None
        hint = next(part for part in get_args(hint) if part is not types.NoneType)
    if get_origin(hint) is list:
        return [str(item) for item in (value if isinstance(value, (list, tuple)) else [value])]
    try:
        return _in_range(declared, _converted(hint, value))
    except (TypeError, ValueError, OverflowError):
        raise UserError(f"{name} takes {TYPES[hint]}, not `{value}`.", f"Give {name} {TYPES[hint]}.") from None


def _check_place(declared: Field[Any], value: Any) -> None:
    if declared.name in OUTPUTS and "://" in str(value) and not declared.metadata["takes_url"]:
        what = f"{flag(declared)} {value} is a URL, which is not written to."
        raise UserError(what, "Give a local place, and copy it from there.")


def _in_range(declared: Field[Any], value: Any) -> Any:
    name, low, high = flag(declared), declared.metadata["minimum"], declared.metadata["maximum"]
    choices = choices_of(declared)
    if choices and value not in choices:
        if other := declared.metadata["elsewhere"].get(value):
            raise UserError(f"{name} does not take `{value}`.", other)
        raise unknown(f"value for {name}:", value, choices)
    if low is not None and not value >= low:
        raise UserError(f"{name} is {value}; the minimum is {low}.", f"Give {name} {low} or more.")
    if high is not None and not value <= high:
        raise UserError(f"{name} is {value}; the maximum is {high}.", f"Give {name} {high} or less.")
    if isinstance(value, float) and not math.isfinite(value):
        raise UserError(f"{name} is {value}.", f"Give {name} a number.")
    return value


def _converted(hint: type, value: Any) -> Any:
    if isinstance(value, bool) != (hint is bool):  # `yes` in YAML is no number
        raise TypeError
    if hint is str and not isinstance(value, (str, int, float, Path)):
        raise TypeError
    if hint is int:
        whole = value if isinstance(value, int) else int(float(value))
        if float(value) != whole or abs(whole) >= 2**63:
            raise ValueError
        return whole
    return hint(value)
