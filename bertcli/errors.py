"""Errors that a person can act on: one line of what is wrong, one line of what to type next."""

import os
from collections import Counter
from collections.abc import Iterable
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from shlex import quote


class UserError(Exception):
    """The request was wrong (exit code 2): `message` says what is wrong, `hint` what to type next."""

    exit_code = 2
    is_said = False  # printed already, by another process of the run

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message, hint)  # both, because a worker process pickles an error by its arguments
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}"


class RunError(UserError):
    """The run failed for a reason a person can act on, such as a loss that is not a number (exit code 1)."""

    exit_code = 1


class Interrupted(UserError):
    """A signal stopped a run; its checkpoint is kept (exit code 128 + the signal's number: 130 after Ctrl-C)."""

    def __init__(self, message: str, hint: str, signal_number: int = 0) -> None:
        super().__init__(message, hint)
        self.exit_code = 128 + (signal_number or 2)


def first_line(error: Exception) -> str:
    """The first line of an error's message, or its class where it has none, without a full stop."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(". ")


def quoted(path: object) -> str:
    """A path, or the name of a model, as it is typed in a shell."""
    return quote(str(path))


def flag_of(option: str) -> str:
    """The flag of an option, as it is typed."""
    return f"--{option.rstrip('_').replace('_', '-')}"


MANY = 50  # names that are not listed where a command lists them


def unknown(kind: str, name: object, known: Iterable[str], see: str = "") -> UserError:
    """Build the error for an unknown name, with the nearest known one."""
    names = sorted(filter(None, known))  # an option that may be empty has "" among its values
    nearest = get_close_matches(str(name).lower(), names, n=1, cutoff=0.6)
    between = "; " if any("," in each for each in names) else ", "
    known_names = f"Known: {between.join(names)}." if len(names) < MANY or not see else ""
    hint = f"Did you mean `{nearest[0]}`?" if nearest else known_names
    return UserError(f"Unknown {kind} `{name}`.", f"{hint} {see}".strip())


def repeated(names: Iterable[str]) -> list[str]:
    """The names that stand more than once."""
    return [name for name, count in Counter(names).items() if count > 1]


def check_place(out: Path) -> None:
    """Raise UserError if nothing can be written at a path: a link that leads nowhere, or a path inside a file."""
    if out.is_symlink() and not out.exists():
        raise UserError(f"`{out}` is a link that leads nowhere.", "Remove it, or give another name.")
    inside = next((each for each in out.parents if each.is_symlink() or each.exists()), Path())
    if not inside.is_dir():
        raise UserError(f"`{out}` cannot be written: `{inside}` is not a folder.", "Give a name in a folder.")
    if not os.access(out if out.is_dir() else inside, os.W_OK):
        raise UserError(f"`{out}` cannot be written: nothing may be put there.", "Give a name in another folder.")


def check_file(out: Path, option: str) -> None:
    """Raise UserError if an output file cannot be written: it is a folder, in no folder, or a link that leads nowhere."""
    check_place(out)
    if out.is_dir() or not out.parent.is_dir():
        raise UserError(f"`{out}` cannot be written.", f"Give {option} a file in a folder that exists.")


def check_positions(max_seq_length: int, positions: int) -> None:
    """Raise UserError if inputs may be longer than a model has positions."""
    if max_seq_length > positions:
        what = f"--max-seq-length {max_seq_length} is longer than the model's {positions} positions."
        raise UserError(what, f"Give --max-seq-length {positions} or less.")


def check_vacant(out: Path) -> None:
    """Check that an output folder does not exist or is empty. Raises UserError if it is neither, or a file."""
    check_place(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"`{out}` exists already and is not empty.", "Give another folder: --out NEW-FOLDER")


def check_extra(extra: str, *packages: str, use: str, instead: str = "") -> None:
    """Check that the packages of an extra are installed, importing none. Raises UserError if one is not.

    `use` is what needs them, and `instead` what else to do.
    """
    if missing := [package for package in packages if find_spec(package) is None]:
        what = f"{use} needs {' and '.join(missing)}, which {'are' if missing[1:] else 'is'} not installed."
        raise UserError(what, f"Install it: pip install 'bertcli[{extra}]'{instead and f'; or {instead}'}")


def check_regular(path: Path) -> None:
    """Raise UserError if a path leads to a pipe, a socket or a device, which may never end or never begin."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise UserError(f"`{path}` is a pipe or a device, not a file.", f"Write it to a file: head -c 1G {path} > FILE")
