"""The application: its commands, and the one place where errors become exit codes."""

import os
import sys
from typing import Annotated

import typer

from bertcli import __version__
from bertcli.cli import console, lists
from bertcli.cli.build_vocab import build_vocab
from bertcli.cli.convert import convert
from bertcli.cli.demo import demo
from bertcli.cli.evaluate import evaluate
from bertcli.cli.finetune import finetune
from bertcli.cli.make_pretraining_data import make_pretraining_data
from bertcli.cli.predict import predict
from bertcli.cli.pretrain import pretrain
from bertcli.cli.submit import submit
from bertcli.errors import UserError

INTERRUPTED = 130  # Typer exits with it after Ctrl-C, without a message
GO_ON = "Run the same command again: finished shards and runs are kept, a file of predictions is written anew."
CommandLineError: type[Exception] = typer.BadParameter.__mro__[1]  # ClickException, which Typer vendors

HELP = {"help_option_names": ["-h", "--help"]}
app = typer.Typer(name="bert", no_args_is_help=True, pretty_exceptions_enable=False, context_settings=HELP)
LISTS = ("tasks", lists.tasks, None), ("sizes", lists.sizes, None)
COMMANDS = (build_vocab, make_pretraining_data, pretrain, finetune, evaluate, predict, submit, convert, *LISTS, demo)
for name, run, epilog in COMMANDS:
    app.command(name, epilog=epilog)(run)
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
    try:
        code = app(standalone_mode=False)
        if code == INTERRUPTED:
            raise KeyboardInterrupt
    except UserError as error:
        if os.environ.get("BERT_DEBUG", "") not in ("", "0"):
            raise
        if not error.is_said:
            console.error(error.message, error.hint)
        code = error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        console.error("Interrupted.", GO_ON)
        code = INTERRUPTED
    except CommandLineError as error:
        code = _wrong_command_line(error)
    except SystemExit:  # Typer's, when the reader of a pipe has closed it
        code = 0
    sys.exit(code if isinstance(code, int) else 0)


def _wrong_command_line(error: Exception) -> int:
    if type(error).__name__ == "NoArgsIsHelpError":
        print(getattr(error, "message", ""), file=sys.stderr)
        return 2
    what, _, nearest = str(getattr(error, "format_message", error.__str__)()).partition("Did you mean")
    path = getattr(getattr(error, "ctx", None), "command_path", "bert")
    hint = f"Did you mean {nearest.strip().rstrip('?')}? " if nearest else ""
    console.error(what.strip().rstrip("."), f"{hint}See `{path} --help`.")
    return 2
