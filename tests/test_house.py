"""The house stays in order: imports point down, files are one noun, the README's tree is true, recipes and commands work."""

import ast
import re
import shlex
import sys
import zipfile
from pathlib import Path

import pytest
import yaml

from bertcli.config import FinetuneConfig, PretrainConfig, recipe_names, recipes_folder

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "bertcli"
README = (ROOT / "README.md").read_text(encoding="utf-8")
FILES = sorted(path for path in PACKAGE.rglob("*.py") if "_recipes" not in path.parts)

# Rows of the house, top to bottom. A file imports from its own row and from those below.
ROWS = [
    {"cli", "__main__"},
    {"demo"},
    {
        "vocabulary",
        "new_words",
        "pretraining_data",
        "pretraining",
        "finetuning",
        "evaluation",
        "prediction",
        "submission",
        "conversion",
    },
    {"predictor", "prediction_files", "hidden_states"},
    {"scoring"},
    {"reports"},
    {"training"},
    {"models", "metrics"},
    {"data"},
    {"tasks"},
    {"config"},
    {"errors"},
]
# A bar is shown wherever work is long; it needs nothing but the standard library and rich.
EVERYWHERE = {"bertcli.training.progress", "bertcli"}
# What a size is, and what a command's options are, is data that any row may read.
LIGHT = {"config", "errors", "tasks", "bertcli.models.sizes"}


def row_of(module: str) -> int:
    part = module.split(".")[1] if "." in module else "errors"
    return next(number for number, row in enumerate(ROWS) if part in row)


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("bertcli"):
            names.add(node.module)
    return names


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_imports_point_down(path: Path) -> None:
    mine = module_of(path)
    if mine == "bertcli":
        return
    for other in imports_of(path) - EVERYWHERE:
        assert row_of(other) >= row_of(mine), f"{mine} imports {other}, which stands above it"


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_files_and_functions_stay_small(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= 420, path
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            assert node.end_lineno - node.lineno < 70, f"{path}: {node.name}"


@pytest.mark.parametrize("path", [path for path in FILES if path.name != "__init__.py"], ids=module_of)
def test_the_readmes_tree_repeats_each_files_first_line(path: Path) -> None:
    first = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))).splitlines()[0]
    tree = README[README.index("\nbertcli/\n") :]
    if path.parent.name == "cli" and path.name not in ("main.py", "options.py", "console.py"):
        return  # one line for all commands
    entry = next((line for line in tree.splitlines() if re.match(rf"\s+{re.escape(path.name)}\s", line)), None)
    lines = [line for line in tree.splitlines() if re.match(rf"\s+{re.escape(path.name)}\s", line)]
    assert entry is not None, f"{path.name} is not in the README's tree"
    assert any(line.split(path.name, 1)[1].strip() == first for line in lines), f"{path.name}: {first}"


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_is_valid_and_says_what_it_is(name: str) -> None:
    text = (recipes_folder() / f"{name}.yaml").read_text(encoding="utf-8")
    assert text.startswith("# ")
    assert f"--recipe {name}" in text
    config = PretrainConfig if name.startswith("pretrain/") else FinetuneConfig
    config.from_values(yaml.safe_load(text), "recipe key")


def readme_commands() -> list[str]:
    blocks = re.findall(r"```(?:bash|sh|console)\n(.*?)```", README, flags=re.S)
    lines = [line.removeprefix("$ ").split("  #")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.startswith("bert ")]


@pytest.mark.parametrize("command", readme_commands())
def test_every_command_of_the_readme_is_understood(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from bertcli.cli.main import main

    arguments = shlex.split(command)
    has_options = arguments[1] not in ("tasks", "sizes", "recipes")
    monkeypatch.setattr(sys, "argv", [*arguments, "--print-config"] if has_options else arguments)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0, capsys.readouterr().err


def test_the_readme_names_the_two_commands() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in ("demo", "test"):
        assert f"make {target}" in README
        assert re.search(rf"^{target}:", makefile, flags=re.M)


@pytest.mark.slow
def test_the_wheel_carries_recipes_and_demonstration(tmp_path: Path) -> None:
    from hatchling.builders.wheel import WheelBuilder

    wheel = next(iter(WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])))
    names = set(zipfile.ZipFile(wheel).namelist())
    assert "bertcli/_recipes/pretrain/base.yaml" in names
    assert "bertcli/_recipes/demo/banking77/LICENSE" in names
    assert any(name.startswith("bertcli/_recipes/demo/books/") for name in names)
    assert not any(name.startswith(("tests/", "recipes/")) for name in names)
