"""Charts as SVG whose points show their values when they are hovered, in the colours of the page."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import unescape
from typing import Any

from bertcli import without_exponent

CLASS = 'class="chart"'
MOST_POINTS = 200  # of a line
WIDTH, HEIGHT = 360, 210
# What pygal adds for its own style and script, and to place its own tooltips.
NOT_NEEDED = re.compile(r'<!--.*?-->|<defs>.*?</defs>|<desc class="(?:value|x|y)[^>]*>.*?</desc>', re.DOTALL)
NOT_DRAWN = re.compile(r'<g transform="[^"]*" class="plot t[a-z]*-overlay">.*(?=</g></svg>)', re.DOTALL)
LABEL = re.compile(r'<desc class="label">(.*?)</desc>', re.DOTALL)
DECIMALS = re.compile(r"(\.\d\d)\d+(?=[^<>]*>)")  # of places, not of what is shown

Point = tuple[float, float, str]  # x, y, and what is shown when it is hovered


@dataclass(frozen=True)
class Chart:
    """A title, the drawing, the names of its lines where there are several, and what the x axis is."""

    title: str
    svg: str
    lines: list[str] = field(default_factory=list)
    axis: str = ""


def line_chart(
    title: str, lines: Mapping[str, Sequence[Point]], axis: str = "step", is_marked: bool = False, **options: Any
) -> Chart | None:
    """A line for each name, by the first numbers of its points, which `is_marked` shows; None where no line has two of them.

    A line that is marked may have a single point.
    """
    kept = {name: _thinned(points) for name, points in lines.items() if len(points) > (not is_marked)}
    if not kept:
        return None
    chart = _drawn("XY", title, kept, axis, {"dots_size": 4, **options})
    return replace(chart, svg=chart.svg.replace(CLASS, 'class="chart marked"', 1)) if is_marked else chart


def scatter_chart(title: str, points: Sequence[Point], axis: str, line: Sequence[Point] = (), **options: Any) -> Chart:
    """Points by themselves, and a line for where they should be."""
    import pygal

    chart = pygal.XY(**_options(options | {"stroke": False, "dots_size": 4}))
    chart.add("", _values(points))
    if line:
        chart.add("", _values(line), stroke=True, show_dots=False)
    return Chart(title, _clean(chart, title).replace(CLASS, 'class="chart points"', 1), axis=axis)


def histogram(title: str, counts: Sequence[int], edges: Sequence[float], axis: str) -> Chart:
    """A bar for each count, from one edge to the next."""
    import pygal

    chart = pygal.Histogram(**_options({}))
    bars = []
    for size, low, high in zip(counts, edges, edges[1:], strict=False):
        between = f"{without_exponent(low, 10)} to {without_exponent(high, 10)}"
        bars.append({"value": (size, low, high), "label": f"{between} {axis}: {size:,}"})
    chart.add("", bars)
    return Chart(title, _clean(chart, title), axis=axis)


def _drawn(shape: str, title: str, lines: Mapping[str, Sequence[Point]], axis: str, options: dict[str, Any]) -> Chart:
    import pygal

    chart = getattr(pygal, shape)(**_options(options))
    for name, points in lines.items():
        chart.add(name, _values(points))
    return Chart(title, _clean(chart, title), list(lines) if len(lines) > 1 else [], axis)


def _options(more: dict[str, Any]) -> dict[str, Any]:
    plain = {"css": [], "js": [], "disable_xml_declaration": True, "no_prefix": True, "show_legend": False}
    shape = {"width": WIDTH, "height": HEIGHT, "margin": 8, "max_scale": 6, "min_scale": 3, "truncate_label": -1}
    return {**plain, **shape, "value_formatter": _number, "x_value_formatter": _number, **more}


def _number(value: float) -> str:
    """A number on an axis, which has room for few digits."""
    if abs(value) >= 1e6:
        return f"{without_exponent(value / 1e6, 3)} M"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _values(points: Sequence[Point]) -> list[dict[str, Any]]:
    return [{"value": (x, y), "label": label} for x, y, label in points if math.isfinite(x) and math.isfinite(y)]


def _thinned(points: Sequence[Point]) -> Sequence[Point]:
    """At most so many points, the last among them."""
    return points[::-1][:: math.ceil(len(points) / MOST_POINTS)][::-1]


def _clean(chart: Any, title: str) -> str:
    """The drawing without style and script, and with titles, which browsers show when a point is hovered."""
    from markupsafe import escape

    svg = NOT_NEEDED.sub("", chart.render(is_unicode=True)).replace("<title>Pygal</title>", "", 1)
    svg = LABEL.sub(lambda found: f"<title>{escape(unescape(found[1]))}</title>", NOT_DRAWN.sub("", svg))
    named = f'{CLASS} role="img" aria-label="{escape(title)}"'
    return DECIMALS.sub(r"\1", svg).replace('id="" class="pygal-chart"', named, 1)


def standalone(chart: Chart, style: str) -> str:
    """The drawing as a file of its own, with its style in it."""
    return chart.svg.replace(">", f"><style>{style}</style>", 1)
