"""HTML and Markdown, in which no text of the user's is markup."""

import re
from collections.abc import Callable, Iterable
from html import unescape
from pathlib import Path
from typing import Any

from bertcli.reports.tables import Table, cell_text

TEMPLATES = Path(__file__).parent / "templates"
ESCAPED = re.compile(r"\\(.)|\*\*|`")
MARKUP = re.compile(r"([\\`*\[\]|~#])")


def render(template: str, filters: dict[str, Callable[..., Any]] | None = None, **values: Any) -> str:
    """A page of a template; every value is escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    folder = FileSystemLoader(TEMPLATES)
    jinja = Environment(loader=folder, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    jinja.filters |= filters or {}
    return jinja.get_template(template).render(**values)


def escaped(text: object) -> str:
    """A text on one line that Markdown and HTML show as it stands."""
    plain = " ".join(str(text).split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return MARKUP.sub(r"\\\1", plain)


def unescaped(markdown: str) -> str:
    """A line of Markdown without its markup, as plain text."""
    return unescape(ESCAPED.sub(r"\1", markdown))


def markdown_table(table: Table) -> str:
    """A table, with numbers to the right."""
    rows = [[escaped(cell_text(cell)) for cell in row] for row in table.rows]
    rules = ["---:" if is_number else "---" for is_number in table.numeric_columns]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [map(escaped, table.columns), rules, *rows])


def markdown_tables(tables: Iterable[Table]) -> str:
    """Tables below their titles."""
    return "\n\n".join(f"### {escaped(table.title)}\n\n{markdown_table(table)}" for table in tables)
