"""The package from Python: immediate to import, with the functions of the commands."""

import importlib
import subprocess
import sys

import pytest

import bertcli


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
