"""The rules of the house that no tool checks: sizes, rooms, doors. `python tests/house.py` prints what breaks them."""

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "bertcli"
FILES = sorted(path for path in PACKAGE.rglob("*.py") if "_recipes" not in path.parts)

LINES, FILE_LINES, FUNCTION_LINES, COMPLEXITY = 37_159, 350, 60, 12  # lower the first with each cut
ENTRIES, ROOT_ENTRIES = 12, 16
GROWING = {"cli", "lifecycle", "tasks", "kinds", "objectives", "families"}  # one file a command, core, task, kind, ...
DOORS = {"bertcli", "bertcli.kernels"}  # they alone name what is defined elsewhere
PAPER = PACKAGE / "tasks" / "paper.py"
BRANCHES = (ast.If, ast.IfExp, ast.For, ast.While, ast.ExceptHandler, ast.comprehension, ast.Assert, ast.match_case)
Function = ast.FunctionDef | ast.AsyncFunctionDef


def problems() -> Iterator[str]:
    """Everything that breaks a rule, a line each."""
    lines = {path: path.read_text(encoding="utf-8").splitlines() for path in FILES}
    total = sum(map(len, lines.values()))
    if total > LINES:
        yield f"bertcli: {total:,} lines (at most {LINES:,})"
    yield from _rooms()
    scores = {number for number in _floats(PAPER) if number > 30}
    for path, text in lines.items():
        where = path.relative_to(ROOT)
        if len(text) > FILE_LINES:
            yield f"{where}: {len(text)} lines (at most {FILE_LINES})"
        for number, line in enumerate(text, 1):
            if any(f"fmt: {word}" in line for word in ("skip", "off")):
                yield f"{where}:{number}: switches the formatter off"
        if path != PAPER:
            yield from (f"{where}: {number} is a score of the paper" for number in scores.intersection(_floats(path)))
        if "\n" in (ast.get_docstring(_tree(path)) or ""):
            yield f"{where}: the docstring of a file is one line"
        yield from (f"{where}:{problem}" for problem in (*_functions(path), *_doors(path)))


def _rooms() -> Iterator[str]:
    """Rooms with too many entries: files and folders."""
    for room in sorted({PACKAGE, *(path.parent for path in FILES)}):
        entries = [each for each in room.iterdir() if each.suffix == ".py" or (each / "__init__.py").exists()]
        limit = ROOT_ENTRIES if room == PACKAGE else ENTRIES
        if len(entries) > limit and room.relative_to(PACKAGE).as_posix() not in GROWING:
            yield f"{room.relative_to(ROOT)}: {len(entries)} entries (at most {limit})"


def _functions(path: Path) -> Iterator[str]:
    """Functions that are too long, or have too many branches."""
    for node in ast.walk(_tree(path)):
        if isinstance(node, Function):
            length = (node.end_lineno or 0) - node.lineno + 1
            if length > FUNCTION_LINES:
                yield f"{node.lineno}: {node.name} has {length} lines (at most {FUNCTION_LINES})"
            if (complexity := _complexity(node)) > COMPLEXITY:
                yield f"{node.lineno}: {node.name} has complexity {complexity} (at most {COMPLEXITY})"


def _complexity(function: Function) -> int:
    """Cyclomatic complexity, as radon counts it: ruff's leaves out comprehensions and boolean operators."""
    nodes = list(ast.walk(function))
    operators = sum(len(node.values) - 1 for node in nodes if isinstance(node, ast.BoolOp))
    conditions = sum(len(node.ifs) for node in nodes if isinstance(node, ast.comprehension))
    return 1 + operators + conditions + sum(isinstance(node, BRANCHES) for node in nodes)


def _doors(path: Path) -> Iterator[str]:
    """Imports past the door of the kernels, and of names from files that only import them themselves."""
    inside = (PACKAGE / "kernels") in path.parents
    for node in ast.walk(_tree(path)):
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("bertcli"):
            continue
        module = node.module or ""
        names = {name.name for name in node.names}
        parts = {name for name in names if _file(f"{module}.{name}")}
        behind = module.startswith("bertcli.kernels.") or (module == "bertcli.kernels" and parts)
        if behind and not inside:
            yield f"{node.lineno}: import from `bertcli.kernels`, not from `{module}`"
        elif module not in DOORS:
            for name in sorted(names - parts - _defined(module)):
                yield f"{node.lineno}: `{name}` is not defined in {module}"


@cache
def _defined(module: str) -> frozenset[str]:
    """The names that a file itself defines."""
    path = _file(module)
    names: set[str] = set()
    for node in ast.walk(_tree(path)) if path else ():
        if isinstance(node, Function | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return frozenset(names)


def _file(module: str) -> Path | None:
    path = ROOT / module.replace(".", "/")
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.exists()), None)


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _floats(path: Path) -> set[float]:
    return {
        node.value for node in ast.walk(_tree(path)) if isinstance(node, ast.Constant) and type(node.value) is float
    }


if __name__ == "__main__":
    found = list(problems())
    print(*found, sep="\n", end="\n" if found else "")
    sys.exit(bool(found))
