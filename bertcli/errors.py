"""What can be wrong with a request: one line that says it, one line that says what to type."""

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path


class UserError(Exception):
    """The request was wrong (exit code 2): `message` says what, `hint` what to type next."""

    exit_code = 2
    is_said = False  # by another process of the run

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message, hint)  # both: a worker process sends it by its arguments
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}"


class RunError(UserError):
    """The run failed for a reason a person can act on, such as a loss that is not a number (exit code 1)."""

    exit_code = 1


class Interrupted(UserError):
    """The user stopped a run; its checkpoint is kept (exit code 130)."""

    exit_code = 130


def unknown(kind: str, name: object, known: Iterable[str], see: str = "") -> UserError:
    """Build the error for a name that is not known, with the nearest one that is."""
    names = sorted(known)
    nearest = get_close_matches(str(name).lower(), names, n=1, cutoff=0.5)
    hint = f"Did you mean `{nearest[0]}`?" if nearest else f"Known: {', '.join(names)}."
    return UserError(f"Unknown {kind} `{name}`.", f"{hint} {see}".rstrip())


def check_vacant(out: Path) -> None:
    """Raise UserError if the folder to write is a file or not empty."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"`{out}` already holds something.", "Give another: --out NEW-FOLDER")
