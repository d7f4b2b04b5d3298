"""The model card and the report of a run: README.md, report.html, loss.png, result.json."""

import base64
import html
import json
from dataclasses import asdict

from bertcli.reports.plots import plot_run
from bertcli.reports.tables import Table, result_tables
from bertcli.training.result import TrainingResult
from bertcli.training.run_folder import RunFolder

NOT_SHOWN = {"losses", "metrics", "runs", "spread"}


def write_reports(folder: RunFolder, result: TrainingResult, notes: list[str] | None = None) -> None:
    """Write what a person reads about the run; result.json comes last and says that the run is finished."""
    plot_run(folder.metrics(), folder.path / "loss.png")
    folder.write("README.md", _card(folder, result, notes or []))
    folder.write("report.html", _page(folder, result, notes or []))
    folder.write("result.json", json.dumps(asdict(result), indent=2) + "\n")


def _card(folder: RunFolder, result: TrainingResult, notes: list[str]) -> str:
    config = folder.config
    tags = "\n".join(f"- {tag}" for tag in ("bert", result.task))
    tables = "\n\n".join(_markdown_table(table) for table in result_tables(result))
    given = {key: value for key, value in config.items() if value is not None and value is not False}
    options = "\n".join(f"- {key}: {value}" for key, value in given.items())
    share = f" ({result.share_of_peak:.1%} of {result.peak})" if result.share_of_peak else ""
    said = "".join(f"\n{note}\n" for note in notes)
    return f"""---
library_name: transformers
tags:
{tags}
---

# {folder.path.name}

Made by `bert {config["command"]}`; opens with `AutoModel...from_pretrained("{result.model}")`.
{result.steps:,} steps, {result.tokens_per_second:,.0f} real tokens a second{share}, seed {result.seed}.

{tables}
{said}
![Loss and scores over the steps](loss.png)

## Options

{options}
"""


def _page(folder: RunFolder, result: TrainingResult, notes: list[str]) -> str:
    picture = base64.b64encode((folder.path / "loss.png").read_bytes()).decode()
    tables = "".join(_html_table(table) for table in result_tables(result))
    facts = {**folder.config, **{key: value for key, value in asdict(result).items() if key not in NOT_SHOWN}}
    known = ((key, html.escape(str(value))) for key, value in facts.items() if value is not None)
    listed = "".join(f"<tr><th>{html.escape(key)}</th><td>{value}</td></tr>" for key, value in known)
    said = "".join(f"<p>{html.escape(note)}</p>" for note in notes)
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{html.escape(folder.path.name)}</title>
<style>body{{font:15px/1.5 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em}}
table{{border-collapse:collapse;margin:1em 0}}td,th{{padding:.2em .8em;border-bottom:1px solid #ccc;text-align:left}}img{{max-width:100%}}</style>
<h1>{html.escape(folder.path.name)}</h1>
{tables}{said}
<img alt="Loss and scores over the steps" src="data:image/png;base64,{picture}">
<h2>Options and figures</h2><table>{listed}</table></html>
"""


def _html_table(table: Table) -> str:
    head = "".join(f"<th>{html.escape(column)}</th>" for column in table.columns)
    rows = ("".join(f"<td>{html.escape(_text(cell))}</td>" for cell in row) for row in table.rows)
    return f"<table><tr>{head}</tr>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


def _markdown_table(table: Table) -> str:
    lines: list[list[object]] = [list(table.columns), ["---"] * len(table.columns), *table.rows]
    return "\n".join("| " + " | ".join(_text(cell) for cell in line) + " |" for line in lines)


def _text(cell: object) -> str:
    if cell is None:
        return "–"
    return f"{cell:.2f}" if isinstance(cell, float) else str(cell)
