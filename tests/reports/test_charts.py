"""Charts are plain SVG: no script, no style, and the value of each point in a title."""

import re
import xml.etree.ElementTree as ET

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bertcli.reports.charts import MOST_POINTS, histogram, line_chart, scatter_chart
from bertcli.reports.curves import run_curves

HOSTILE = '</title><script>alert(1)</script> & "quoted" ]]>'


def test_a_point_has_its_value_as_a_title() -> None:
    chart = line_chart("Loss", {"loss": [(1, 2e-5, "step 1: 2e-05"), (2, 1e-5, "step 2: 1e-05")]})
    assert chart
    assert "<title>step 1: 2e-05</title>" in chart.svg
    assert "2e-05</text>" in chart.svg  # on the axis, in full


def test_large_numbers_are_whole_on_the_axis_and_without_exponents_where_they_are_hovered() -> None:
    points = [(each * 1e6, each * 1.1e6, "") for each in (10.5, 12.5, 16.5)]
    chart = scatter_chart("Prices", points, "true value", points[:2])
    labels = re.findall(r">([^<>]+)</text>", chart.svg)
    assert {"12 M", "14 M", "16 M"} <= {*labels}
    assert not [label for label in labels if "\u2026" in label]
    bars = histogram("Errors", [1, 2], [-2815250.0, 0.0, 59140.25], "error").svg
    assert "<title>-2,815,250 to 0 error: 1</title>" in bars
    assert "0 to 59,140.25 error: 2" in bars
    (curve,) = run_curves([{"step": step, "loss": 1.0, "tokens_per_second": 59140.3} for step in (1, 2)])[1:]
    assert "<title>step 1: tokens per second 59,140</title>" in curve.svg


def test_a_line_without_two_points_is_not_drawn_and_a_long_one_is_thinned() -> None:
    assert line_chart("Loss", {"loss": [(1, 1.0, "")]}) is None
    chart = line_chart("Loss", {"loss": [(step, 1.0, f"step {step}.") for step in range(10_000)]})
    assert chart
    assert chart.svg.count("<circle") <= MOST_POINTS
    assert "step 9999." in chart.svg


def test_text_in_a_chart_is_text() -> None:
    points = [(0.0, 1.0, HOSTILE), (1.0, 2.0, HOSTILE)]
    charts = [line_chart(HOSTILE, {HOSTILE: points}), scatter_chart(HOSTILE, points, HOSTILE, points)]
    for chart in (*charts, histogram(HOSTILE, [1, 2], [0, 1, 2], HOSTILE)):
        assert chart
        root = ET.fromstring(chart.svg)
        assert not [each for each in root.iter() if each.tag.rpartition("}")[2] in ("script", "style", "desc")]
        assert any(HOSTILE in (each.text or "") for each in root.iter()) or HOSTILE in root.attrib["aria-label"]
        assert not re.search(r"https?://(?!www\.w3\.org)", chart.svg)


@given(st.lists(st.floats(allow_nan=True, width=32), min_size=2, max_size=6))
@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
def test_any_numbers_are_drawn(values: list[float]) -> None:
    chart = line_chart("Loss", {"loss": [(step, value, "x") for step, value in enumerate(values)]})
    assert chart
    ET.fromstring(chart.svg)
