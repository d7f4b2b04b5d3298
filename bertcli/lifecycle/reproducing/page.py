"""A reproduction as tables, as Markdown and as a page: the paper's table with ours beside it, directions, costs, and Figure 5."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from bertcli.lifecycle.reproducing.result import Reproduction
from bertcli.reports.charts import Chart, Point, line_chart
from bertcli.reports.rendering import escaped, markdown_tables
from bertcli.reports.sections import Page, Section
from bertcli.reports.tables import INTERVAL, Table, interval_text, signed
from bertcli.training.progress import duration

MOST_COLUMNS = 5  # beside each of which the paper's stands
HOW_SURELY = (
    "Differences are means over the runs with the same seeds; their intervals resample the examples and the seeds together"
    " (paired bootstrap). Scores are medians over the seeds ± the standard deviation."
)


def score_table(found: Reproduction) -> Table:
    """The paper's table with ours beside it; one of many columns with a row for each of them."""
    named = {(cell["row"], cell["column"]): cell for cell in found.cells}
    down, across = found.systems, found.scored_columns
    if len(across) > MOST_COLUMNS:
        down, across, named = across, down, {(column, row): cell for (row, column), cell in named.items()}
    columns = [pair for name in across for pair in _columns(name, [named.get((each, name), {}) for each in down])]
    rows = [[name, *cells] for name, *cells in zip(down, *(values for _, values in columns), strict=True)]
    return Table(f"{found.experiment}: {found.title}", ["", *(head for head, _ in columns)], rows)


def _columns(name: str, cells: Sequence[dict[str, Any]]) -> Iterator[tuple[str, list[object]]]:
    """Our scores, and the paper's, where it has any."""
    yield name, [_ours(cell) for cell in cells]
    if any(cell.get("paper") is not None for cell in cells):
        yield "paper", [cell.get("paper") for cell in cells]


def _ours(cell: dict[str, Any]) -> str | None:
    if cell.get("median") is None:
        return None
    deviation = cell.get("standard_deviation")
    return f"{cell['median']:.2f}" + ("" if deviation is None else f" ± {deviation:.2f}")


def direction_table(found: Reproduction) -> Table:
    """Each difference between two rows, beside the paper's where it has any."""

    def row(each: dict[str, Any]) -> list[str | None]:
        between = f"{each['row']} − {each['beside']}"
        paper = None if each["paper"] is None else signed(each["paper"])
        ours = [each["column"], between, signed(each["difference"]), interval_text(each["confidence_interval"])]
        return [*ours, *([paper, _verdict(each)] if found.paper["rows"] else [_chance(each)])]

    beside = ["paper", "direction"] if found.paper["rows"] else [""]
    return Table("differences", ["", "between", "ours", INTERVAL, *beside], [*map(row, found.comparisons)])


def _chance(compared: dict[str, Any]) -> str:
    if compared["significant"] is None:
        return "one run, no interval"
    return "more than chance" if compared["significant"] else "may be chance"


def _verdict(compared: dict[str, Any]) -> str:
    """Whether a difference has the paper's direction, and how surely."""
    if compared["paper"] is None:
        return "not in the paper"
    if compared["direction_holds"] is None:
        return "equal in the paper" if not compared["paper"] else "equal here"
    words = "the same" if compared["direction_holds"] else "the opposite"
    if compared["significant"] is None:
        return f"{words}; {_chance(compared)}"
    share = compared["share_of_resamples"]
    share = share if compared["direction_holds"] else 1 - share
    return f"{words}, {_chance(compared)} ({100 * share:.0f} % of resamples)"


def cost_table(found: Reproduction) -> Table:
    """What each kind of part took."""
    rows: list[list[object]] = [[each["title"], each["count"], duration(each["seconds"])] for each in found.costs]
    total = sum(each["count"] for each in found.costs)
    return Table("costs", ["part", "times", "took in all"], [*rows, ["all", total, duration(found.seconds)]])


def paper_table(found: Reproduction) -> Table:
    """The paper's table alone."""
    rows = [[system, *scores] for system, scores in found.paper["rows"].items()]
    return Table("the whole table of the paper", ["", *found.paper["columns"]], rows)


def figure(found: Reproduction) -> Chart | None:
    """Scores by the share of the pre-training steps, beside the points of the paper; None where there is no such axis."""
    scores: dict[str, list[tuple[str, float | None]]] = {}
    for system in found.systems:
        scores[system] = [(cell["column"], cell["median"]) for cell in found.cells if cell["row"] == system]
        paper = zip(found.paper["columns"], found.paper["rows"].get(system, ()), strict=False)
        scores[f"{system}, the paper's base on MNLI"] = list(paper)
    lines: dict[str, list[Point]] = {}
    for name, points in scores.items():
        shares = ((column.rpartition(", ")[2].split()[0], score) for column, score in points if column.endswith("%"))
        known = [(float(share), score) for share, score in shares if score is not None]
        lines[name] = [(x, y, f"{name}: {y:.2f} after {x:g} % of the steps") for x, y in known]
    return line_chart(found.title, lines, "share of the pre-training steps, %", is_marked=True)


def page_of(reproductions: Sequence[Reproduction]) -> Page:
    """Reproductions on one page."""
    sections, titles = [], _titles(reproductions)
    for found, title in zip(reproductions, titles, strict=True):
        chart = figure(found)
        tables = [score_table(found), *([direction_table(found)] if found.comparisons else [])]
        text = [*([found.sentence] if len(reproductions) > 1 else []), HOW_SURELY, *found.notes]
        sections.append(Section(f"{title}: {found.title}", text, [chart] if chart else [], tables))
        what, beside = "What it took", []
        if found.paper["rows"]:
            what, beside = f"{title}: the paper, and what ours took", [paper_table(found)]
        costs = [*beside, cost_table(found)]
        sections.append(Section(what, ["This repeats it:"], tables=costs, commands=[found.command]))
    first, missing = reproductions[0], [line for each in reproductions for line in each.skipped]
    sentence = f"{len(reproductions)} experiments of the paper, run again." if reproductions[1:] else first.sentence
    return Page(", ".join(titles), sentence, sections, missing, "reproduction")


def markdown_of(found: Reproduction) -> str:
    """A reproduction as Markdown."""
    tables = [score_table(found), *([direction_table(found)] if found.comparisons else []), cost_table(found)]
    lines = [found.sentence, HOW_SURELY, *found.notes, *found.skipped]
    return "\n\n".join([f"# {_title(found)}", *map(escaped, lines), markdown_tables(tables), f"`{found.command}`"])


def _titles(reproductions: Sequence[Reproduction]) -> list[str]:
    """Their names, with their folders where two have the same one."""
    titles = [_title(found) for found in reproductions]
    if len(set(titles)) == len(titles):
        return titles
    return [f"{title} in {found.folder}" for title, found in zip(titles, reproductions, strict=True)]


def _title(found: Reproduction) -> str:
    return found.experiment.replace("-", " ").capitalize()
