"""Sections of a report, put into one self-contained HTML page, in which no text of the user's is markup."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from bertcli.reports.charts import Chart
from bertcli.reports.rendering import TEMPLATES, render
from bertcli.reports.tables import Table, cell_text

LONGEST_TEXT = 600  # characters of an example that are shown


@dataclass(frozen=True)
class Section:
    """A part of a page: its title and contents, in this order."""

    title: str
    text: Sequence[str] = ()
    charts: Sequence[Chart] = ()
    tables: Sequence[Table] = ()
    matrix: Table | None = None  # of counts, coloured by their share of the row
    examples: Sequence[dict[str, Any]] = ()  # which can be filtered; the key `text` stands first
    commands: Sequence[str] = ()


@dataclass(frozen=True)
class Page:
    """A title, the result in a sentence, the sections, and what is missing in them."""

    title: str
    result: str
    sections: Sequence[Section]
    missing: Sequence[str] = field(default_factory=list)
    kicker: str = ""  # above the title


def render_page(page: Page) -> str:
    """The page as HTML. The one script in it is known by its hash: a browser runs no other, and loads nothing."""
    from markupsafe import Markup

    script = (TEMPLATES / "page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    filters: dict[str, Any] = {"cell": cell_text, "shown": shown, "share": _share, "drawing": Markup}
    return render("page.html", filters, page=page, script=Markup(script), script_digest=digest)


def chart_style() -> str:
    """The style of charts, on a page or in a file of their own."""
    return (TEMPLATES / "charts.css").read_text(encoding="utf-8")


def shown(value: Any) -> str:
    """A value of an example: several joined, a long text cut."""
    text = ", ".join(map(str, value)) if isinstance(value, list) else cell_text(value)
    return text[: LONGEST_TEXT - 1] + "…" if len(text) > LONGEST_TEXT else text


def _share(row: list[Any], count: int) -> int:
    """A count as a percentage of its row, whose first cell is a name."""
    total: int = max(1, sum(row[1:]))
    return round(100 * count / total)
