"""The curves of runs: loss, score, learning rate, gradient norm and speed over the steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bertcli import without_exponent
from bertcli.reports.charts import Chart, Point, line_chart

Lines = Sequence[Mapping[str, Any]]  # of metrics.jsonl
LOGGED = {"learning_rate": "Learning rate", "gradient_norm": "Gradient norm, before clipping"}
LOGGED |= {"tokens_per_second": "Tokens per second"}
NOT_SCORES = ("loss", "thresh", "entropy")


def run_curves(lines: Lines) -> list[Chart]:
    """The curves of a run: each loss and each score is a line of its chart."""
    logged = [line for line in lines if "loss" in line]
    parts = [name for line in logged[:1] for name in line if name.endswith("_loss")] or ["loss"]
    losses = {_words(name): logged_points(lines, name) for name in parts}
    scores = {_words(name): score_points(lines, name) for name in score_names(lines)}
    charts = [line_chart("Training loss", losses | _entropy(lines, logged)), line_chart("Score, %", scores)]
    charts += [line_chart(title, {title: logged_points(lines, name)}) for name, title in LOGGED.items()]
    return [chart for chart in charts if chart]


def common_curves(runs: Mapping[str, Lines]) -> list[Chart]:
    """The curves of several runs over each other, a line for each."""
    first = next(iter(runs.values()))
    charts = [line_chart("Training loss", {name: logged_points(lines, "loss") for name, lines in runs.items()})]
    for metric in score_names(first)[:3]:
        charts.append(line_chart(_words(metric), {name: score_points(lines, metric) for name, lines in runs.items()}))
    for quantity, title in LOGGED.items():
        charts.append(line_chart(title, {name: logged_points(lines, quantity) for name, lines in runs.items()}))
    return [chart for chart in charts if chart]


def score_names(lines: Lines) -> list[str]:
    """The scores of the evaluations, not their losses and thresholds."""
    names = dict.fromkeys(name for line in lines for name in line.get("metrics", ()))
    return [name for name in names if not name.endswith(NOT_SCORES)]


def logged_points(lines: Lines, name: str) -> list[Point]:
    """The logged values of a quantity; the speed of the first steps is not known and logged as 0."""
    return [_point(line["step"], line[name], name) for line in lines if "loss" in line and line.get(name)]


def score_points(lines: Lines, name: str) -> list[Point]:
    """The values of a score at the evaluations."""
    return [_point(line["step"], line["metrics"][name], name) for line in lines if name in line.get("metrics", {})]


def _entropy(lines: Lines, logged: Lines) -> dict[str, list[Point]]:
    """The entropy of the tokens, the loss of knowing only how frequent each is, as a horizontal line."""
    found = [line["metrics"]["token_entropy"] for line in lines if "token_entropy" in line.get("metrics", {})]
    ends = (logged[0]["step"], logged[-1]["step"]) if len(logged) > 1 else ()
    return {"by frequency alone": [_point(step, found[-1], "by frequency alone") for step in ends]} if found else {}


def _point(step: int, value: float, name: str) -> Point:
    return step, value, f"step {step:,}: {_words(name)} {without_exponent(value, 4)}"


def _words(name: str) -> str:
    return name.replace("_", " ")
