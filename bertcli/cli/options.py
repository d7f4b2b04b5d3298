"""A command: a function, its examples, and the fields of its configuration as flags."""

import inspect
from collections.abc import Callable
from dataclasses import Field, fields
from typing import Annotated, Any, get_args, get_type_hints

import typer

from bertcli.cli.console import Output
from bertcli.config.options import Config, ConfigType, default_of, flag, help_of
from bertcli.config.recipes import read_recipe

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object to stdout, nothing else.")]
RECIPE = typer.Option(help="YAML file of these options, or a name from `bert recipes`; flags win.")
QUIET = typer.Option("--quiet", help="Print only errors to stderr.")
PRINT_CONFIG = typer.Option("--print-config", help="Print the resolved options as YAML and exit.")
SHARED: dict[str, Any] = {"recipe": Annotated[str | None, RECIPE], "json": AsJson, "quiet": Annotated[bool, QUIET]}
SHARED |= {"print_config": Annotated[bool, PRINT_CONFIG]}
Command = tuple[str, Callable[..., None], str]  # its name, the function that Typer calls, and the end of its help


def command(config_class: type[ConfigType]) -> Callable[[Callable[[ConfigType, Output], object]], Command]:
    """Make a function of the configuration and the output a command, whose flags are the fields of `config_class`.

    Flags win over `--recipe`, which wins over defaults; what the function returns is printed with `--json`.
    """

    def make(function: Callable[[ConfigType, Output], object]) -> Command:
        def run(recipe: str | None, json: bool, quiet: bool, print_config: bool, **given: Any) -> None:
            values = read_recipe(recipe) if recipe else {}
            config = config_class.from_values({**values, **_chosen(config_class, given)}, "recipe key")
            if print_config:
                import yaml

                print(yaml.safe_dump(config.values(), sort_keys=False, allow_unicode=True), end="")
                return
            output = Output(json, quiet)
            output.start()
            result = function(config, output)
            if json and result is not None:
                output.emit(result)

        run.__signature__ = _signature(config_class)  # type: ignore[attr-defined]
        run.__doc__, _, examples = inspect.cleandoc(function.__doc__ or "").partition("Examples:\n")
        return function.__name__.replace("_", "-"), run, "\n\n".join(("Examples:", *examples.splitlines()))

    return make


def _chosen(config_class: type[Config], given: dict[str, Any]) -> dict[str, Any]:
    """The options that were typed; several files of one task are joined by commas."""
    hints = get_type_hints(config_class)
    typed = {key: value for key, value in given.items() if value is not None and value != []}
    joined = {key for key, value in typed.items() if hints[key] is str and isinstance(value, list)}
    return {key: ",".join(value) if key in joined else value for key, value in typed.items()}


def _signature(config_class: type[Config]) -> inspect.Signature:
    hints, own = get_type_hints(config_class), config_class.__annotations__
    ordered = sorted(fields(config_class), key=lambda declared: declared.name not in own)  # its own options come first
    shared = [_keyword(name, None if name == "recipe" else False, each) for name, each in SHARED.items()]
    return inspect.Signature([_parameter(declared, hints[declared.name]) for declared in ordered] + shared)


def _parameter(declared: Field[Any], hint: Any) -> inspect.Parameter:
    """One flag. Its default is None, so that a flag that was typed wins over a recipe; the help shows the real one."""
    default, text, metavar = default_of(declared), help_of(declared), declared.metadata["metavar"]
    # Typer parses numbers; choices stay text, so that the configuration can name the nearest one.
    shape: Any = next((kind for kind in (bool, int, float) if kind in (get_args(hint) or (hint,))), str)
    name, shown = flag(declared), False if default in (None, []) else str(default)
    if shape is bool:
        name, shown = name if name == "--dry-run" else f"{name}/--no-{name[2:]}", "on" if default else False
    info: Any = typer.Option(name, help=text, show_default=shown)
    if metavar:
        info = typer.Argument(metavar=metavar, help=text, show_default=False)
    several = isinstance(default, list) or metavar.endswith("...")
    return _keyword(declared.name, None, Annotated[list[str] | None if several else shape | None, info])


def _keyword(name: str, default: Any, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
