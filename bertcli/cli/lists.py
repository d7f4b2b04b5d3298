"""`bert tasks`, `bert sizes`, `bert recipes`: what there is to choose from."""

import shutil
from pathlib import Path
from typing import Annotated

import typer

from bertcli.cli.console import Output
from bertcli.cli.main import app
from bertcli.config.recipes import recipe_names, recipes_folder
from bertcli.errors import UserError, unknown

AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on stdout, nothing else.")]
recipes = typer.Typer(help="List, show or copy the recipes that ship.", invoke_without_command=True)
app.add_typer(recipes, name="recipes")


@app.command("tasks")
def list_tasks(json: AsJson = False) -> None:
    """List the tasks with the paper's scores."""
    from bertcli.tasks import TASKS

    if json:
        shown = ("kind", "metrics", "labels", "paper", "warning")
        Output().emit({name: {key: getattr(task, key) for key in shown} for name, task in TASKS.items()})
        return
    scored = [("test", "base"), ("test", "large"), ("dev", "base"), ("dev", "large")]
    rows = []
    for task in TASKS.values():
        paper = [task.paper.get(split, {}).get(f"{size} {task.metrics[0]}") for split, size in scored]
        rows.append([task.name, task.kind, task.metrics[0], *paper, task.max_seq_length])
    columns = [f"paper {size}, {split}" for split, size in scored]
    Output().table(["task", "kind", "metric", *columns, "length"], rows)
    for task in TASKS.values():
        if task.warning:
            typer.echo(f"{task.name}: {task.warning}")
    typer.echo("Your own file is a task too: bert finetune reviews.csv")


@app.command("sizes")
def list_sizes(json: AsJson = False) -> None:
    """List the model sizes."""
    from bertcli.families.bert import BERT

    if json:
        Output().emit(
            {
                name: {"layers": s.layers, "hidden": s.hidden, "heads": s.heads, "parameters": s.parameters()}
                for name, s in BERT.sizes.items()
            }
        )
        return
    rows = [
        [name, s.layers, s.hidden, s.heads, f"{s.parameters() / 1e6:.1f} M", s.source] for name, s in BERT.sizes.items()
    ]
    Output().table(["size", "layers", "hidden", "heads", "parameters", "source"], rows)


@recipes.callback()
def list_recipes(context: typer.Context, json: AsJson = False) -> None:
    """List, show or copy the recipes that ship."""
    if context.invoked_subcommand is not None:
        return
    if json:
        Output().emit({"recipes": recipe_names()})
        return
    rows = [[name, _path(name).read_text(encoding="utf-8").split("\n")[0].lstrip("# ")] for name in recipe_names()]
    Output().table(["recipe", "what it is"], rows)


@recipes.command("show")
def show_recipe(name: str) -> None:
    """Print a recipe."""
    typer.echo(_path(name).read_text(encoding="utf-8"), nl=False)


@recipes.command("copy")
def copy_recipe(
    name: str, to: Annotated[str | None, typer.Argument(help="Default: its own name, here.")] = None
) -> None:
    """Copy a recipe here, to be changed."""
    source = _path(name)
    target = Path(to or source.name)
    if target.exists():
        raise UserError(f"`{target}` exists already.", f"Give another name: bert recipes copy {name} my-{source.name}")
    shutil.copyfile(source, target)
    typer.echo(f"{target}")


def _path(name: str) -> Path:
    name = name.removesuffix(".yaml")
    if name not in recipe_names():
        raise unknown("recipe", name, recipe_names(), "`bert recipes` lists them.")
    return recipes_folder() / f"{name}.yaml"
