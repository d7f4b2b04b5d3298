"""The package from Python: immediate to import, with the functions of the commands."""

import importlib
import logging
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import write_corpus, write_reviews

import bertcli
from bertcli.cli.main import app


def test_importing_it_imports_nothing_heavy() -> None:
    program = (
        "import sys\nimport bertcli\nprint(bertcli.__version__, sorted(n for n in sys.modules if n.startswith('bertcli.')))\n"
        "print(sorted({'torch', 'transformers', 'datasets', 'evaluate', 'numpy', 'typer', 'rich'} & sys.modules.keys()))"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert shown == f"{bertcli.__version__} []\n[]\n"


@pytest.mark.parametrize("name", bertcli.__all__)
def test_each_function_is_that_of_its_file(name: str) -> None:
    function = getattr(bertcli, name)
    assert function is getattr(importlib.import_module(f"bertcli.lifecycle.{name}"), name)
    assert name in dir(bertcli)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute `nothing`"):
        bertcli.nothing  # noqa: B018


def test_the_examples_of_the_readme_run(workspace: Path) -> None:
    write_corpus(workspace / "corpus.txt")
    write_reviews(workspace / "reviews.csv", 40)
    write_reviews(workspace / "new.csv", 8, seed=1)
    text = (Path(bertcli.__file__).parent / "README.md").read_text(encoding="utf-8")
    program = "".join(re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE))
    names: dict[str, Any] = {}
    level = logging.getLogger("bertcli").level
    exec(compile(program, "README.md", "exec"), names)
    logging.getLogger("bertcli").setLevel(level)
    assert (workspace / "answers.csv").read_text().splitlines()[0] == "text,label,prediction,score,score_bad,score_good"
    assert list(names["table"].columns) == ["run", "task", "split", "seed", "metric", "score", *names["run"].baseline]
    assert len(names["both"].rows) == 2 * len(names["scores"].rows) == 2 * len(names["run"].metrics)
    assert "<th>metric</th>" in names["scores"]._repr_html_()


def test_every_command_that_does_work_is_a_function() -> None:
    names = {command.name for command in app.registered_commands} - {"tasks", "models", "sizes", None}
    assert {str(name).replace("-", "_") for name in names} == set(bertcli.__all__)
