"""The model card and the report of a run: README.md, report.html, loss.png, result.json."""

import base64
import json
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import Any

from bertcli.reports.tables import Table, result_tables
from bertcli.training.result import TrainingResult
from bertcli.training.run_folder import RunFolder

NOT_SHOWN = {"losses", "metrics", "runs", "spread"}
STYLE = """body{font:15px/1.5 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em}
table{border-collapse:collapse;margin:1em 0}td,th{padding:.2em .8em;border-bottom:1px solid #ccc;text-align:left}
img{max-width:100%}"""


def write_reports(folder: RunFolder, result: TrainingResult, notes: list[str] | None = None) -> None:
    """Write the reports of a run; result.json is written last and marks the run as finished."""
    _plot(folder.metrics(), folder.path / "loss.png")
    folder.write("README.md", _card(folder, result, notes or []))
    folder.write("report.html", _page(folder, result, notes or []))
    folder.write("result.json", json.dumps(asdict(result), indent=2) + "\n")


def _card(folder: RunFolder, result: TrainingResult, notes: list[str]) -> str:
    tables = "\n\n".join(_markdown_table(table) for table in result_tables(result))
    given = {key: value for key, value in folder.config.items() if value is not None and value is not False}
    options = "\n".join(f"- {key}: {value}" for key, value in given.items())
    paragraphs = "".join(f"\n{note}\n" for note in notes)
    utilization = f" ({result.share_of_peak:.1%} of {result.peak})" if result.share_of_peak else ""
    return f"""---
library_name: transformers
tags:
- bert
- {result.task}
---

# {folder.path.name}

Made by `bert {folder.config["command"]}`; opens with `AutoModel...from_pretrained("{result.model}")`.
{result.steps:,} steps, {result.tokens_per_second:,.0f} tokens per second without padding{utilization}, seed {result.seed}.

{tables}
{paragraphs}
![Loss and scores over the steps](loss.png)

## Options

{options}
"""


def _page(folder: RunFolder, result: TrainingResult, notes: list[str]) -> str:
    picture = base64.b64encode((folder.path / "loss.png").read_bytes()).decode()
    name = escape(folder.path.name)
    tables = "".join(_html_table(table.columns, table.rows) for table in result_tables(result))
    facts = {**folder.config, **{key: value for key, value in asdict(result).items() if key not in NOT_SHOWN}}
    paragraphs = "".join(f"<p>{escape(note)}</p>" for note in notes)
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{name}</title>
<style>{STYLE}</style>
<h1>{name}</h1>
{tables}{paragraphs}
<img alt="Loss and scores over the steps" src="data:image/png;base64,{picture}">
<h2>Options and results</h2>{_html_table([], [[key, str(value)] for key, value in facts.items() if value is not None])}</html>
"""


def _html_table(columns: list[str], rows: list[list[object]]) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join("<tr>" + "".join(f"<td>{escape(_text(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _markdown_table(table: Table) -> str:
    lines: list[list[object]] = [list(table.columns), ["---"] * len(table.columns), *table.rows]
    return "\n".join("| " + " | ".join(_text(cell) for cell in line) + " |" for line in lines)


def _text(cell: object) -> str:
    if cell is None:
        return "–"
    return f"{cell:.2f}" if isinstance(cell, float) else str(cell)


def _plot(lines: list[dict[str, Any]], path: Path) -> None:
    """Plot loss, learning rate and evaluation metrics over the steps, as a PNG file."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    _plot_training(left, lines)
    evaluations = [(line["step"], line["metrics"]) for line in lines if "metrics" in line]
    for name in sorted({name for _, values in evaluations for name in values}):
        points = [(step, values[name]) for step, values in evaluations if name in values]
        if name.endswith("entropy"):  # the loss of knowing only how frequent each answer is
            left.axhline(points[-1][1], color="tab:red", linewidth=0.8, linestyle="--")
            left.annotate(name.replace("_", " "), (0, points[-1][1]), fontsize=7, color="tab:red", va="bottom")
        elif not name.endswith(("loss", "thresh")):
            right.plot(*zip(*points, strict=True), marker="o", markersize=3, label=name)
    right.set(xlabel="step", ylabel="%")
    if right.lines:
        right.legend(fontsize=7)
    figure.savefig(path, dpi=110)


def _plot_training(axes: Any, lines: list[dict[str, Any]]) -> None:
    """Plot the first loss that the objective names, else the loss, and the learning rate on an axis of its own."""
    lines = [line for line in lines if "loss" in line]
    steps = [line["step"] for line in lines]
    loss = next((name for line in lines[:1] for name in line if name.endswith("_loss")), "loss")
    axes.plot(steps, [line[loss] for line in lines], color="tab:blue")
    axes.set(xlabel="step", ylabel=f"training {loss.replace('_', ' ')}")
    rate = axes.twinx()
    rate.plot(steps, [line["learning_rate"] for line in lines], color="tab:gray", linewidth=0.8)
    rate.set_ylabel("learning rate")
