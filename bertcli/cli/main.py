"""The application: its commands and the one place where errors become exit codes."""

import os
import sys
from typing import Annotated

import typer

from bertcli import __version__
from bertcli.cli import console
from bertcli.cli.options import is_debugging
from bertcli.errors import UserError

app = typer.Typer(
    name="bert",
    help="The whole life of a BERT: vocabulary, pre-training data, pre-training, fine-tuning, evaluation, prediction.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

INTERRUPTED = 130  # Typer exits with it after Ctrl-C, without a word

# Typer vendors Click; the base of its public exceptions is what a wrong command line raises.
CommandLineError: type[Exception] = typer.BadParameter.__mro__[1]


@app.callback(invoke_without_command=True)
def version(show: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False) -> None:
    """The whole life of a BERT: vocabulary, pre-training data, pre-training, fine-tuning, evaluation, prediction."""
    if show:
        print(__version__)
        raise typer.Exit()


# Each module registers its command on `app`; the order is that of the help, and of the flow.
# isort: off
from bertcli.cli import (  # noqa: E402, F401
    build_vocab,
    make_pretraining_data,
    pretrain,
    finetune,
    evaluate,
    predict,
    submit,
    convert,
    lists,
    demo,
)
# isort: on


def main() -> None:
    """Run the command line; exit 0 done, 1 failed, 2 wrong request, 130 interrupted."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    said = False
    try:
        code = app(standalone_mode=False)
    except UserError as error:
        if is_debugging():
            raise
        if not error.is_said:
            console.error(error.message, error.hint)
        code, said = error.exit_code, True
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except CommandLineError as error:
        code = _wrong_command_line(error)
    except SystemExit:  # Typer's, which keeps the streams quiet: the reader of a pipe went away
        code = 0
    if code == INTERRUPTED and not said:
        console.error(
            "Interrupted.",
            "Run the same command again; finished shards and runs are kept, a file of predictions begins anew.",
        )
    sys.exit(code if isinstance(code, int) else 0)


def _wrong_command_line(error: Exception) -> int:
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        print(getattr(error, "message", ""), file=sys.stderr)
        return 2
    message = str(error.format_message()) if hasattr(error, "format_message") else str(error)
    what, _, nearest = message.partition("Did you mean")
    path = getattr(context, "command_path", "bert")
    hint = f"Did you mean {nearest.strip().rstrip('?')}? " if nearest else ""
    console.error(what.strip().rstrip("."), f"{hint}See `{path} --help`.")
    return 2
