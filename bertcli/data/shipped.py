"""The files that ship with the package: recipes, a small BERT, and the texts of the demonstration."""

from pathlib import Path

SHIPPED = "bert-books"  # name of the small BERT, used where there is no run


def recipes_folder() -> Path:
    """Folder of these files: beside the package in a clone, inside it in a wheel."""
    inside = Path(__file__).parents[1] / "_recipes"
    return inside if inside.exists() else Path(__file__).parents[2] / "recipes"


def shipped_model() -> str:
    """Folder of the small BERT."""
    return str(recipes_folder() / SHIPPED)
