"""The application: its commands, and the one place where errors become exit codes."""

import errno
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from bertcli import __version__
from bertcli.cli import console, lists
from bertcli.cli.options import register
from bertcli.cli.quick_start import start_quickly
from bertcli.cli.spelling import nearest_option
from bertcli.errors import UserError, quoted

DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM)
INTERRUPTED = 130  # Typer exits with it after Ctrl-C, without a word
TOO_MANY, MOST_SHOWN = "Got unexpected extra argument", 5  # what click says, before "(s) (a b c)"
# Typer vendors Click; the base of its public exceptions is what a wrong command line raises.
CommandLineError: type[Exception] = typer.BadParameter.__mro__[1]

SETTINGS = {"help_option_names": ["-h", "--help"]}
app = typer.Typer(name="bert", no_args_is_help=True, pretty_exceptions_enable=False, context_settings=SETTINGS)
# In the order of the help, which is the order in which they are used.
TRAIN = ("build-vocab", "make-pretraining-data", "pretrain", "finetune", "distill", "baseline")
USE = ("evaluate", "predict", "similar", "report", "reproduce", "export", "serve", "submit", "convert")
for name in (*TRAIN, *USE):
    register(app, name)
for listed in (lists.tasks, lists.models, lists.sizes, lists.families):
    app.command()(listed)
register(app, "demo")
app.add_typer(lists.recipes, name="recipes")


@app.callback(invoke_without_command=True)
def version(show: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
    """Build vocabularies and pre-training data; pre-train, fine-tune, evaluate and use BERT."""
    if show:
        print(__version__)
        raise typer.Exit()


def main() -> None:
    """Run the command line; exit with 0 if done, 1 if it failed, 2 if the request was wrong, 130 if interrupted."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    # Where waiting threads give way sooner, small batches are trained on 1.7 times as fast beside other work.
    os.environ.setdefault("GOMP_SPINCOUNT", "20000")
    start_quickly()
    said = False
    try:
        code = app(standalone_mode=False, prog_name="bert")  # also for `python -m bertcli`
    except UserError as error:
        if os.environ.get("BERT_DEBUG", "0") not in ("", "0"):
            raise  # with its traceback
        if not error.is_said:
            console.error(error.message, error.hint)
        code, said = error.exit_code, True
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except CommandLineError as error:
        code = _wrong_command_line(error)
    except SystemExit:  # Typer's, which keeps the streams quiet: the reader of a pipe went away
        code = 0
    except Exception as error:
        if not (code := _of_system(error)):
            raise
    if code == INTERRUPTED and not said:
        hint = "Run it again (a training with --resume): shards and runs are kept, predictions are written again."
        console.error("Interrupted.", hint)
    sys.exit(code if isinstance(code, int) else 0)


def _of_system(error: Exception) -> int:
    """Explain an error of the system, of a disk or a name that is too long; return the exit code, 0 for any other error."""
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        what = f"This is too long for the name of a file: `{str(error.filename)[:40]} ...`."
        console.error(what, 'Give the name of a file; a text has an option of its own: bert predict --text "..."')
        return 2
    if what := _of_disk(error):
        console.error(what, "Free some space, or give a writable folder; existing files are unchanged.")
    return int(bool(what))


def _of_disk(error: Exception) -> str:
    """What is wrong with a disk or a folder, in words; "" for any other error."""
    if isinstance(error, OSError) and error.errno in DISK_ERRORS:
        return f"{os.strerror(error.errno)}{f': `{error.filename}`' if error.filename else ''}."
    words = next((each for each in map(os.strerror, DISK_ERRORS) if each in str(error)), "")  # of safetensors and Arrow
    return f"{words}." if words else ""


def _hint_on_values(values: list[str], options: list[str]) -> str:
    if "--file" in options and Path(values[0]).is_file():
        return f"Name a file by its option: --file {quoted(values[0])}. "
    return "Put what has spaces in quotes, and repeat an option before each of its values. "


def _meant(name: str, options: list[str]) -> str:
    """A file whose name begins with a dash, where one was given, else the nearest option."""
    file = next((each for each in sys.argv[1:] if each.startswith("-") and Path(each).is_file()), "")
    return quoted(f"./{file}") if file else nearest_option(name, options)


def _wrong_command_line(error: Exception) -> int:
    if type(error).__name__ == "NoArgsIsHelpError":
        print(getattr(error, "message", ""), file=sys.stderr)
        return 2
    context = getattr(error, "ctx", None)
    message = str(error.format_message()) if hasattr(error, "format_message") else str(error)
    what, _, nearest = message.partition("Did you mean")
    options = [each for parameter in context.command.params for each in parameter.opts] if context else []
    if name := getattr(error, "option_name", None) if type(error).__name__ == "NoSuchOption" else None:
        what, nearest = f"No such option: {name}", _meant(name, options)
    path = context.command_path if context else "bert"
    hint = f"Did you mean {nearest.strip().rstrip('?')}? " if nearest else ""
    if what.startswith(TOO_MANY):
        values = what.partition(" (")[2].rstrip(")").split()
        what = f"Too many arguments: {' '.join(values[:MOST_SHOWN])}{' and more' * (len(values) > MOST_SHOWN)}"
        hint = _hint_on_values(values, options)
    console.error(what.strip().rstrip("."), f"{hint}See `{path} --help`.")
    return 2
