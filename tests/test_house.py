"""The rules of the code hold, the tree in README.md is true, recipes and commands work."""

import re
import shlex
import sys
import zipfile
from pathlib import Path

import pytest
import yaml

from bertcli.config.distillation import DistillConfig
from bertcli.config.recipes import recipe_names, recipes_folder
from bertcli.config.reproduce import ReproduceConfig
from bertcli.config.training import FinetuneConfig, PretrainConfig
from tests.house import PACKAGE, problems

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_rules_of_the_code_hold() -> None:
    assert list(problems()) == []


def test_the_readmes_tree_repeats_the_line_of_each_room() -> None:
    tree = README.partition("## Where is what\n\n```\n")[2].partition("```")[0].splitlines()
    folders: list[str] = []
    lines = {}
    for indent, name, text in (re.match(r"( *)(\S+)/ +(.*)", line).groups() for line in tree):
        folders[len(indent) // 2 :] = [name]
        lines["/".join(folders)] = text
    rooms = {path.parent: path.read_text(encoding="utf-8") for path in PACKAGE.rglob("__init__.py")}
    described = {room.relative_to(ROOT).as_posix(): text.split('"""')[1].split("\n")[0] for room, text in rooms.items()}
    assert {path: text for path, text in lines.items() if path not in ("recipes", "tests")} == described


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_is_valid_and_says_what_it_is(name: str) -> None:
    text = (recipes_folder() / f"{name}.yaml").read_text(encoding="utf-8")
    assert text.startswith("# ")
    assert f"--recipe {name}" in text
    configs = {"pretrain": PretrainConfig, "reproduce": ReproduceConfig, "distill": DistillConfig}
    config = configs.get(name.partition("/")[0], FinetuneConfig)
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
    has_options = arguments[1] not in ("families", "models", "tasks", "sizes", "recipes")
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
    assert {f"bertcli/reports/templates/{name}.html" for name in ("page", "text_page", "attention", "serving")} <= names
    assert "bertcli/reports/templates/page.css" in names
    assert any(name.startswith("bertcli/_recipes/demo/books/") for name in names)
    assert not any(name.startswith(("tests/", "recipes/")) for name in names)
