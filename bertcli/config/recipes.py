"""The recipes that ship, and those of a person, as options."""

from pathlib import Path
from typing import Any

from bertcli.errors import UserError, unknown

SHIPPED = "bert-books"


def read_recipe(name: str) -> dict[str, Any]:
    """Read a recipe: a YAML file of option names, by its path or by the name `bert recipes` lists."""
    import yaml

    path = Path(name) if Path(name).exists() else recipes_folder() / f"{name.removesuffix('.yaml')}.yaml"
    if not path.exists():
        raise unknown("recipe", name, recipe_names(), "`bert recipes` lists them.")
    if not path.is_file():
        raise UserError(f"The recipe `{path}` is a folder.", "Name a YAML file, or one that `bert recipes` lists.")
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(
            f"The recipe `{path}` is not YAML: {' '.join(str(error).split())}",
            "See `bert recipes show pretrain/base` for the form.",
        ) from error
    if not isinstance(values, dict):
        raise UserError(
            f"The recipe `{path}` is not a list of `option: value` lines.",
            "See `bert recipes show pretrain/base` for the form.",
        )
    return {str(key): value for key, value in values.items()}


def recipes_folder() -> Path:
    """The recipes that ship: beside the package in a clone, inside it in a wheel."""
    inside = Path(__file__).parent.parent / "_recipes"
    return inside if inside.exists() else Path(__file__).parents[2] / "recipes"


def shipped_model() -> str:
    """The folder of the small BERT that ships with the package."""
    return str(recipes_folder() / SHIPPED)


def shipped(name: str) -> str:
    """The folder of the model that ships, if that is what a name means; else the name."""
    return shipped_model() if name == SHIPPED else name


def recipe_names() -> list[str]:
    """Names of the recipes that ship, such as `glue/mnli`."""
    folder = recipes_folder()
    return sorted(path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.yaml"))
