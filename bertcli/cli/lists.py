"""`bert tasks`, `bert models`, `bert sizes` and `bert recipes`: what there is to choose from."""

import shutil
import sys
from itertools import product
from pathlib import Path
from typing import Annotated

import typer

from bertcli.cli.completion import complete_recipes
from bertcli.cli.console import Output, write
from bertcli.cli.options import AsJson
from bertcli.config.recipes import read_recipe, recipe_names, recipe_path, recipes_folder
from bertcli.errors import UserError

OfFamily = Annotated[str, typer.Option("--family", help="Family, as `bert families` lists them.")]
RecipeName = Annotated[str, typer.Argument(autocompletion=complete_recipes)]
TARGET = typer.Argument(help="File to write; default: the recipe's own name.")
recipes = typer.Typer(help="List, show or copy the recipes that ship with bert.", invoke_without_command=True)


def tasks(json: AsJson = False) -> None:
    """List the tasks, with the paper's scores."""
    from bertcli.tasks import TASKS

    if json:
        shown = ("kind", "metrics", "labels", "paper", "warning")
        return Output().emit({name: {key: getattr(task, key) for key in shown} for name, task in TASKS.items()})
    scored, rows = list(product(("test", "dev"), ("base", "large"))), []
    for task in TASKS.values():
        paper = [task.paper.get(split, {}).get(f"{size} {task.metrics[0]}") for split, size in scored]
        rows.append([task.name, task.kind, task.metrics[0], *paper, task.max_seq_length])
    Output().table(["task", "kind", "metric", *(f"paper {size}, {split}" for split, size in scored), "length"], rows)
    for task in TASKS.values():
        if task.warning:
            write(f"{task.name}: {task.warning}", sys.stdout)
    typer.echo("Your own file is a task too: bert finetune reviews.csv")


def models(json: AsJson = False) -> None:
    """List the pre-trained models that `--from` and `--model` take by name."""
    from bertcli.lifecycle.pretrained import PRETRAINED

    if json:
        shown = ("parameters", "megabytes", "licence", "good_for", "trained_on")
        listed = {name: {key: getattr(model, key) for key in shown} for name, model in PRETRAINED.items()}
        places = {name: str(model.folder) if model.folder else None for name, model in PRETRAINED.items()}
        return Output().emit({name: values | {"folder": places[name]} for name, values in listed.items()})
    rows = [
        [name, f"{each.parameters / 1e6:.1f} M", f"{each.megabytes} MB", each.licence, "yes" if each.folder else "no"]
        for name, each in PRETRAINED.items()
    ]
    Output().table(["model", "parameters", "size", "licence", "here"], rows)
    for name, model in PRETRAINED.items():
        where = model.folder or f"not here ({model.how_to_get})"
        write(f"{name}\n  good for: {model.good_for}\n  trained on: {model.trained_on}\n  where: {where}", sys.stdout)
    typer.echo("Any other model of the Hub is named OWNER/NAME; a run or a folder by its path.")


def sizes(family: OfFamily = "bert", json: AsJson = False) -> None:
    """List the model sizes of a family; parameters are counted for BERT with 30,522 tokens."""
    from bertcli.families import get_family
    from bertcli.families.bert import BERT

    found, names = get_family(family).sizes, ("layers", "hidden", "heads")
    counts = {name: size.parameters() for name, size in found.items()} if family == BERT.key else {}
    if json:
        shapes = {name: {key: getattr(size, key) for key in names} for name, size in found.items()}
        more = {name: {"parameters": count} for name, count in counts.items()}
        return Output().emit({name: shape | more.get(name, {}) for name, shape in shapes.items()})
    shown = {name: f"{count / 1e6:.1f} M" for name, count in counts.items()}
    rows = [[name, size.layers, size.hidden, size.heads, shown.get(name), size.source] for name, size in found.items()]
    Output().table(["size", *names, "parameters", "source"], rows)


def families(json: AsJson = False) -> None:
    """List the families of models that can be pre-trained from text."""
    from bertcli.families import get_family, pretrainable

    found = {name: get_family(name) for name in pretrainable()}
    if json:
        shown = ("name", "vocabularies", "objectives")
        listed = {name: {key: getattr(family, key) for key in shown} for name, family in found.items()}
        return Output().emit({name: values | {"sizes": list(found[name].sizes)} for name, values in listed.items()})
    rows = [
        [name, family.vocabularies[0], family.objective, ", ".join(family.objectives[1:]), ", ".join(family.sizes)]
        for name, family in found.items()
    ]
    Output().table(["family", "vocabulary", "objective", "others", "sizes"], rows)
    typer.echo("bert build-vocab TEXT --family F; bert make-pretraining-data TEXT --family F; bert pretrain")
    typer.echo("DistilBERT is made from a pre-trained BERT: bert distill --teacher RUN")


@recipes.callback()
def list_recipes(context: typer.Context, json: AsJson = False) -> None:
    """List, show or copy the recipes that ship with bert."""
    if json and not context.invoked_subcommand:
        Output().emit({"recipes": recipe_names()})
    elif not context.invoked_subcommand:
        texts = ((name, (recipes_folder() / f"{name}.yaml").read_text(encoding="utf-8")) for name in recipe_names())
        Output().table(["recipe", "description"], ([name, text.split("\n")[0].lstrip("# ")] for name, text in texts))


@recipes.command("show")
def show_recipe(name: RecipeName, json: AsJson = False) -> None:
    """Print a recipe."""
    if json:
        return Output().emit(read_recipe(name))
    typer.echo(recipe_path(name).read_text(encoding="utf-8"), nl=False)


@recipes.command("copy")
def copy_recipe(name: RecipeName, to: Annotated[str | None, TARGET] = None) -> None:
    """Copy a recipe into this folder, to be edited."""
    source = recipe_path(name)
    target = Path(to or source.name)
    target = target / source.name if target.is_dir() else target
    if target.exists():
        raise UserError(f"`{target}` exists already.", f"Give another name: bert recipes copy {name} my-{source.name}")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    typer.echo(target)
