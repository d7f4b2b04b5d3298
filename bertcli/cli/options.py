"""Turns a configuration's fields into the flags of a command."""

import inspect
import os
from collections.abc import Callable
from dataclasses import Field, fields
from typing import Annotated, Any, get_args, get_type_hints

import typer

from bertcli.cli.console import Output
from bertcli.config.options import Config, ConfigType, default_of, flag
from bertcli.config.recipes import read_recipe

Core = Callable[[ConfigType, Output], None]

SHARED = {
    "recipe": Annotated[
        str | None, typer.Option(help="A YAML file of these options, or a name from `bert recipes`; flags win.")
    ],
    "json": Annotated[bool, typer.Option("--json", help="One JSON object on stdout, nothing else.")],
    "quiet": Annotated[bool, typer.Option("--quiet", help="No words on stderr but errors.")],
    "print_config": Annotated[
        bool, typer.Option("--print-config", help="Print the resolved options as YAML and stop.")
    ],
}


def command(
    app: typer.Typer, config_class: type[ConfigType], name: str, examples: str
) -> Callable[[Core[ConfigType]], Core[ConfigType]]:
    """Register a command whose flags are the fields of `config_class`.

    The decorated function gets the checked configuration and the output; flags win over `--recipe`, which wins over defaults.
    """

    def register(core: Core[ConfigType]) -> Core[ConfigType]:
        def run(**given: Any) -> None:
            recipe, as_json, quiet, print_config = (given.pop(key) for key in SHARED)
            output = Output(json=as_json, quiet=quiet)
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
            core(config, output)

        run.__signature__ = _signature(config_class)  # type: ignore[attr-defined]
        run.__doc__ = core.__doc__
        epilog = "Examples:\n\n" + "\n\n".join(f"  {line}" for line in examples.strip().splitlines())
        app.command(name, epilog=epilog)(run)
        return core

    return register


def _signature(config_class: type[Config]) -> inspect.Signature:
    hints = get_type_hints(config_class)
    own = config_class.__annotations__
    ordered = sorted(
        fields(config_class), key=lambda declared: declared.name not in own
    )  # the command's own come first
    parameters = [_parameter(declared, hints[declared.name]) for declared in ordered]
    for name, annotation in SHARED.items():
        default = None if name == "recipe" else False
        parameters.append(
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        )
    return inspect.Signature(parameters)


def _parameter(declared: Field[Any], hint: Any) -> inspect.Parameter:
    """One flag. Its default is None, so that a recipe can tell what was typed; the help shows the real one."""
    default, text = default_of(declared), declared.metadata["help"]
    several = isinstance(default, list) or declared.metadata.get("metavar", "").endswith("...")
    shape: Any = list[str] | None if several else _plain(hint) | None
    if "metavar" in declared.metadata:
        info: Any = typer.Argument(metavar=declared.metadata["metavar"], help=text, show_default=False)
    elif hint is bool:
        name = flag(declared)
        shape = bool | None
        spelled = f"{name}/--no-{name[2:]}" if default or name != "--dry-run" else name
        info = typer.Option(spelled, help=text, show_default="on" if default else False)
    else:
        info = typer.Option(flag(declared), help=text, show_default=False if default in (None, []) else f"{default}")
    return inspect.Parameter(
        declared.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[shape, info]
    )


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
