"""Recipes: YAML files of options, shipped with the package or written by the user."""

from pathlib import Path
from typing import Any

from bertcli.errors import UserError, unknown

SHIPPED = "bert-books"  # the small BERT in the package
FORM = "See `bert recipes show pretrain/base` for an example."


def with_recipe(name: str | None, options: dict[str, Any]) -> dict[str, Any]:
    """Options and, where they say nothing, those of a recipe; its warm-up is shortened with its steps.

    Its steps, and the warm-up that belongs to them, give way to `flops`.
    """
    values = read_recipe(name) if name else {}
    steps, of_recipe, warmup = options.get("steps"), values.get("steps"), values.get("warmup_steps")
    if options.get("flops"):
        values.pop("steps", None)
        values.pop("warmup_steps", None)
    elif isinstance(steps, int) and isinstance(of_recipe, int) and isinstance(warmup, int) and steps < of_recipe:
        values["warmup_steps"] = warmup * steps // of_recipe
    return {**values, **options}


def read_recipe(name: str) -> dict[str, Any]:
    """Read a recipe, given by its path or by its name in `bert recipes`."""
    from bertcli.data.yaml_files import read_yaml

    path = Path(name) if Path(name).exists() else recipe_path(name)
    if path.is_dir():
        raise UserError(f"The recipe `{path}` is a folder.", "Name a YAML file, or a recipe of `bert recipes`.")
    try:
        values = read_yaml(path) or {}
    except (ValueError, OSError) as error:
        raise UserError(f"The recipe `{path}` is not YAML: {error}", FORM) from error
    if not isinstance(values, dict):
        raise UserError(f"The recipe `{path}` is not a list of `option: value` lines.", FORM)
    return {str(key): value for key, value in values.items()}


def recipes_folder() -> Path:
    """The folder of the recipes and the small BERT: beside the package in a clone, inside it in a wheel."""
    inside = Path(__file__).parent.parent / "_recipes"
    return inside if inside.exists() else Path(__file__).parents[2] / "recipes"


def shipped_model() -> str:
    """Folder of the small BERT in the package."""
    return str(recipes_folder() / SHIPPED)


def recipe_names() -> list[str]:
    """Names of the recipes that ship, such as `glue/mnli`."""
    folder = recipes_folder()
    return sorted(path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.yaml"))


def recipe_path(name: str) -> Path:
    """File of a recipe that ships."""
    if (known := name.removesuffix(".yaml")) not in recipe_names():
        raise unknown("recipe", name, recipe_names(), "`bert recipes` lists them; or give a YAML file.")
    return recipes_folder() / f"{known}.yaml"
