"""A command: a function, its examples, and the fields of its configuration as flags."""

import inspect
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import Field, dataclass, fields
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer
from typer.core import TyperCommand

from bertcli.cli.completion import complete_recipes, completion_of
from bertcli.cli.console import Output, is_first
from bertcli.config.options import Config, ConfigType, choices_of, default_of, flag, help_of, joined
from bertcli.config.recipes import with_recipe
from bertcli.errors import UserError

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object to stdout, nothing else.")]
SHARED: dict[str, Any] = {  # name -> annotation
    "recipe": Annotated[
        str | None,
        typer.Option(
            help="YAML file of these options, or a name from `bert recipes`; flags win.",
            autocompletion=complete_recipes,
        ),
    ],
    "json": AsJson,
    "quiet": Annotated[bool, typer.Option("--quiet", help="Print only errors to stderr.")],
    "print_config": Annotated[
        bool, typer.Option("--print-config", help="Print the resolved options as YAML, with --json as JSON, and exit.")
    ],
}


@dataclass(frozen=True)
class Command:
    """A command of the application: what its help says first and last, and the function that Typer calls."""

    help: str
    epilog: str
    run: Callable[..., None]
    config_class: type[Config]

    def with_flags(self) -> TyperCommand:
        """The command as Typer has it."""
        self.run.__signature__ = _signature(self.config_class)  # type: ignore[attr-defined]
        app = typer.Typer(add_completion=False)
        app.command(help=self.help, epilog=self.epilog)(self.run)
        made = typer.main.get_command(app)
        assert isinstance(made, TyperCommand)
        return made


def command(
    config_class: type[ConfigType], resolve: Callable[[ConfigType], ConfigType] = lambda config: config
) -> Callable[[Callable[[ConfigType, Output], object]], Command]:
    """Make a function the command of its name, whose flags are the fields of `config_class`.

    `resolve` fills in what follows from other options, for --print-config.

    The function gets the checked configuration (flags win over `--recipe`, which wins over defaults) and the output; what
    it returns is printed with `--json`. The examples are those of its docstring.
    """
    from bertcli.config.training import TrainingConfig

    shares_processes = issubclass(config_class, TrainingConfig)

    def make(function: Callable[[ConfigType, Output], object]) -> Command:
        def run(recipe: str | None, json: bool, quiet: bool, print_config: bool, **given: Any) -> None:
            config = config_class.from_values(with_recipe(recipe, _chosen(config_class, given)), "recipe key")
            if print_config:
                import yaml

                with suppress(UserError):  # of data or a model that may be there when it runs
                    config = resolve(config)
                if json:
                    Output(json=True).emit(config.values())
                else:
                    print(yaml.safe_dump(config.values(), sort_keys=False, allow_unicode=True), end="")
                return
            if not (shares_processes or is_first()):  # of several processes, which only a training shares
                return
            output = Output(json, quiet)
            output.start()
            result = function(config, output)
            if json and result is not None:
                output.emit(result)

        text, _, examples = inspect.cleandoc(function.__doc__ or "").partition("Examples:\n")
        return Command(text, "\n\n".join(("Examples:", *examples.splitlines())), run, config_class)

    return make


def register(app: typer.Typer, name: str) -> None:
    """Add a command to the application by its name.

    Its file is imported when the command is called. The list of commands shows the first line of the file.
    """
    module = name.replace("-", "_")
    with Path(__file__).with_name(f"{module}.py").open(encoding="utf-8") as file:
        words = file.readline().strip().strip('"').partition(": ")[2]
    app.command(name, cls=_parser(module), help=words[:1].upper() + words[1:])(lambda: None)


def _parser(module: str) -> type[TyperCommand]:
    """What parses a command line on which an option may have no value, or several, which Typer does not.

    Its flags are made when they are first asked for: importing every command and making its flags takes a fifth of a second.
    """

    class Parser(TyperCommand):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            del self.params  # __getattr__ makes them

        def __getattr__(self, name: str) -> Any:
            if name not in ("params", "declared"):
                raise AttributeError(name)
            command: Command = getattr(import_module(f"bertcli.cli.{module}"), module)
            made = command.with_flags()
            self.params, self.callback, self.help, self.epilog = made.params, made.callback, made.help, made.epilog
            self.declared = {flag(each): each for each in fields(command.config_class) if each.metadata["nargs"]}
            return getattr(self, name)

        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            _check_repeated(args, self.params)
            return super().parse_args(ctx, [*_with_one_value_each(args, self.declared)])

        def format_help(self, ctx: Any, formatter: Any) -> None:
            """The help without the column of --no-... flags, so that its words have room in 80 columns."""
            negatives = [(each, each.secondary_opts) for each in self.params]
            try:
                for each in self.params:
                    each.secondary_opts = []
                super().format_help(ctx, formatter)
            finally:
                for each, spelled in negatives:
                    each.secondary_opts = spelled

    return Parser


def _check_repeated(arguments: list[str], params: list[Any]) -> None:
    """Raise UserError at an option that is given twice, of whose values the last would count."""
    given = [argument.partition("=")[0] for argument in arguments if argument.startswith("--")]
    for each in params:
        twice = next((name for name in each.opts if given.count(name) > 1), None)
        if twice and not (each.multiple or getattr(each, "is_flag", False)):
            raise UserError(f"{twice} takes one value, and is given more than once.", f"Give {twice} once.")


def _with_one_value_each(arguments: list[str], declared: dict[str, Field[Any]]) -> Iterator[str]:
    """The arguments with one value after each option: the first choice where it has none, the option again before others."""
    rest = deque(arguments)
    while rest:
        yield (name := rest.popleft())
        if name not in declared:
            continue
        has_value = bool(rest) and not rest[0].startswith("--")
        if declared[name].metadata["nargs"] == "?":
            yield rest.popleft() if has_value else choices_of(declared[name])[0]
        elif has_value:
            yield rest.popleft()
            while rest and not rest[0].startswith("--"):
                yield from (name, rest.popleft())


def _chosen(config_class: type[Config], given: dict[str, Any]) -> dict[str, Any]:
    """The options that were typed; several files of one task are joined by commas."""
    hints = get_type_hints(config_class)
    chosen = {key: value for key, value in given.items() if value is not None and value != []}
    return {key: joined(hints[key], value) for key, value in chosen.items()}


def _signature(config_class: type[Config]) -> inspect.Signature:
    hints, own = get_type_hints(config_class), config_class.__annotations__
    ordered = sorted(fields(config_class), key=lambda declared: declared.name not in own)  # its own options come first
    shared = (_keyword(name, None if name == "recipe" else False, each) for name, each in SHARED.items())
    return inspect.Signature([*(_parameter(declared, hints[declared.name]) for declared in ordered), *shared])


def _parameter(declared: Field[Any], hint: Any) -> inspect.Parameter:
    """One flag. Its default is None, so that a recipe can tell what was typed; the help shows the real one."""
    default, text, metavar = default_of(declared), help_of(declared), declared.metadata.get("metavar", "")
    completes = completion_of(declared)
    several = isinstance(default, list) or metavar.endswith("...")
    shape: Any = list[str] if several else bool if hint is bool else _plain(hint)
    if metavar:
        info: Any = typer.Argument(metavar=metavar, help=text, show_default=False, autocompletion=completes)
    elif hint is bool:
        name = flag(declared)
        spelled = f"{name}/--no-{name[2:]}" if default or name != "--dry-run" else name
        info = typer.Option(spelled, help=text, show_default=f"on; off: --no-{name[2:]}" if default else False)
    else:
        shown = False if default in (None, [], "") else f"{default}"
        info = typer.Option(flag(declared), help=text, show_default=shown, autocompletion=completes)
    return _keyword(declared.name, None, Annotated[shape | None, info])


def _keyword(name: str, default: Any, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _plain(hint: Any) -> Any:
    """Numbers are parsed by Typer; choices stay text, so that the configuration can name the nearest one."""
    kinds = get_args(hint) or (hint,)
    return int if int in kinds else float if float in kinds else str
