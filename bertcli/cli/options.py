"""A command: a function, its examples, and the fields of its configuration as flags."""

import inspect
import os
from collections.abc import Callable
from dataclasses import Field, dataclass, fields
from typing import Annotated, Any, get_args, get_type_hints

import typer

from bertcli.cli.console import Output
from bertcli.config.options import Config, ConfigType, default_of, flag, help_of
from bertcli.config.recipes import read_recipe

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object to stdout, nothing else.")]
SHARED: dict[str, tuple[Any, Any]] = {  # name -> default, annotation
    "recipe": (
        None,
        Annotated[
            str | None, typer.Option(help="YAML file of these options, or a name from `bert recipes`; flags win.")
        ],
    ),
    "json": (False, AsJson),
    "quiet": (False, Annotated[bool, typer.Option("--quiet", help="Print only errors to stderr.")]),
    "print_config": (
        False,
        Annotated[bool, typer.Option("--print-config", help="Print the resolved options as YAML and exit.")],
    ),
}


@dataclass(frozen=True)
class Command:
    """A command of the application: its name, the function that Typer calls, and what its help ends with."""

    name: str
    run: Callable[..., None]
    epilog: str

    def register(self, app: typer.Typer) -> None:
        """Add the command to the application."""
        app.command(self.name, epilog=self.epilog)(self.run)


def command(config_class: type[ConfigType]) -> Callable[[Callable[[ConfigType, Output], object]], Command]:
    """Make a function the command of its name, whose flags are the fields of `config_class`.

    The function gets the checked configuration (flags win over `--recipe`, which wins over defaults) and the output; what
    it returns is printed with `--json`. The examples are those of its docstring.
    """

    def make(function: Callable[[ConfigType, Output], object]) -> Command:
        def run(**given: Any) -> None:
            recipe, as_json, quiet, print_config = (given.pop(key) for key in SHARED)
            output = Output(as_json, quiet)
            values = read_recipe(recipe) if recipe else {}
            chosen = {key: value for key, value in given.items() if value is not None and value != []}
            for key, hint in get_type_hints(config_class).items():
                if hint is str and isinstance(chosen.get(key), list):
                    chosen[key] = ",".join(chosen[key])  # several files of one task
            config = config_class.from_values({**values, **chosen}, "recipe key")
            if print_config:
                _print_config(config)
                return
            output.start()
            result = function(config, output)
            if as_json and result is not None:
                output.emit(result)

        run.__signature__ = _signature(config_class)  # type: ignore[attr-defined]
        run.__doc__, _, examples = inspect.cleandoc(function.__doc__ or "").partition("Examples:\n")
        return Command(function.__name__.replace("_", "-"), run, "\n\n".join(("Examples:", *examples.splitlines())))

    return make


def _signature(config_class: type[Config]) -> inspect.Signature:
    hints, own = get_type_hints(config_class), config_class.__annotations__
    ordered = sorted(fields(config_class), key=lambda declared: declared.name not in own)  # its own options come first
    shared = (_keyword(name, default, annotation) for name, (default, annotation) in SHARED.items())
    return inspect.Signature([*(_parameter(declared, hints[declared.name]) for declared in ordered), *shared])


def _parameter(declared: Field[Any], hint: Any) -> inspect.Parameter:
    """One flag. Its default is None, so that a recipe can tell what was typed; the help shows the real one."""
    default, text, metavar = default_of(declared), help_of(declared), declared.metadata.get("metavar", "")
    several = isinstance(default, list) or metavar.endswith("...")
    shape: Any = list[str] if several else bool if hint is bool else _plain(hint)
    if metavar:
        info: Any = typer.Argument(metavar=metavar, help=text, show_default=False)
    elif hint is bool:
        name = flag(declared)
        spelled = f"{name}/--no-{name[2:]}" if default or name != "--dry-run" else name
        info = typer.Option(spelled, help=text, show_default="on" if default else False)
    else:
        info = typer.Option(flag(declared), help=text, show_default=False if default in (None, []) else f"{default}")
    return _keyword(declared.name, None, Annotated[shape | None, info])


def _keyword(name: str, default: Any, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _plain(hint: Any) -> Any:
    """Numbers are parsed by Typer; choices stay text, so that the configuration can name the nearest one."""
    kinds = get_args(hint) or (hint,)
    return int if int in kinds else float if float in kinds else str


def _print_config(config: Config) -> None:
    import yaml

    print(yaml.safe_dump(config.values(), sort_keys=False, allow_unicode=True), end="")


def is_debugging() -> bool:
    """Whether user errors should show their traceback too (`BERT_DEBUG=1`)."""
    return os.environ.get("BERT_DEBUG", "") not in ("", "0")
