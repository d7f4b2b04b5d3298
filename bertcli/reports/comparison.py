"""Several runs beside each other, as the sections of a page and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, zip_longest
from typing import Any

from bertcli import number_of
from bertcli.reports.curves import common_curves
from bertcli.reports.evaluation import Evaluation, evaluation_tables
from bertcli.reports.record import COUNTED, RunRecord
from bertcli.reports.rendering import escaped, markdown_tables
from bertcli.reports.sections import Page, Section, shown
from bertcli.reports.tables import Table, interval_text

Mistakes = dict[Any, dict[str, Any]]  # by the number or the id of the example
MOST_SHOWN, MOST_IN_MARKDOWN = 100, 5  # examples that one run gets right and another wrong


def comparison_page(runs: Sequence[RunRecord], compared: Evaluation | None) -> Page:
    """The runs beside each other; `compared` are their evaluations where all are of the same examples."""
    tables = [scores_table(runs, compared)]
    text = _remarks(compared)
    sections = [
        Section("Scores", text, tables=tables),
        Section("What differs", tables=[table for table in (options_table(runs), data_table(runs)) if table.rows]),
        Section("Curves", charts=common_curves({run.name: run.lines for run in runs})),
        *(_disagreements(runs[0], other) for other in runs[1:] if compared),
    ]
    missing = [f"{run.name}: {each}" for run in runs for each in run.missing]
    title = " and ".join(run.name for run in runs) if len(runs) < 4 else f"{len(runs)} runs"
    return Page(title, verdict(runs, compared), [*filter(_has_content, sections)], missing, "comparison")


def comparison_markdown(runs: Sequence[RunRecord], compared: Evaluation | None) -> str:
    """The comparison as Markdown, with the first examples only."""
    tables = [table for table in (scores_table(runs, compared), options_table(runs), data_table(runs)) if table.rows]
    parts = [escaped(verdict(runs, compared)), *map(escaped, _remarks(compared)), markdown_tables(tables)]
    for other in runs[1:] if compared else ():
        section = _disagreements(runs[0], other)
        names = list(section.examples[0]) if section.examples else []
        rows = [[shown(each.get(name)) for name in names] for each in section.examples[:MOST_IN_MARKDOWN]]
        parts += [escaped(section.text[0]), *([markdown_tables([Table(section.title, names, rows)])] if rows else [])]
    return "\n\n".join(parts)


def verdict(runs: Sequence[RunRecord], compared: Evaluation | None) -> str:
    """Which run scores best, and whether its lead is more than chance, in a sentence."""
    metric = next(iter(runs[0].result.metrics), "")
    scored = [run for run in runs if metric in run.result.metrics]
    if compared is None or not metric:
        return _why_not(runs)
    first, *others = sorted(scored, key=lambda run: -run.result.metrics[metric])
    is_tied = any(run.result.metrics[metric] == first.result.metrics[metric] for run in others)
    place = "is tied for first" if is_tied else "is best"
    beside = ", ".join(f"{run.name} {run.result.metrics[metric]:.2f}" for run in others)
    lead = f"{first.name} {place}: {metric.replace('_', ' ')} {first.result.metrics[metric]:.2f}; {beside}"
    pairs = zip(runs[1:], compared.others, strict=True)
    apart = [run.name for run, each in pairs if each.to_first.get(metric, {}).get("significant")]
    chance = f"significant for {', '.join(apart)}" if apart else "not significant"
    return f"{lead}. On the same {compared.examples:,} examples, the difference to {runs[0].name} is {chance}."


def _why_not(runs: Sequence[RunRecord]) -> str:
    """Why the scores of runs are not compared."""
    if any(run.evaluation is None and run.config.get("kind") for run in runs):
        return "Not all of these runs can be scored again, so it is not known whether their differences are chance."
    return "These runs are not scored on the same examples, so their scores may differ because of the data."


def scores_table(runs: Sequence[RunRecord], compared: Evaluation | None) -> Table:
    """Scores with intervals and paired differences to the first run; without these where the examples differ."""
    if compared is not None:
        return replace(evaluation_tables(replace(compared, mistakes=[], other_splits=[]))[0])
    rows: list[list[object]] = []
    for run in runs:
        intervals = run.evaluation.confidence_intervals if run.evaluation else {}
        for metric, score in run.result.metrics.items():
            row = [run.name, run.result.task, run.result.split, metric, score, interval_text(intervals.get(metric))]
            rows.append(row)
    return Table("scores", ["run", "task", "split", "metric", "score", "95 % interval"], rows)


def options_table(runs: Sequence[RunRecord]) -> Table:
    """The options in which the runs differ; of different commands, those that all have."""
    join = set[str].intersection if len({run.config.get("command") for run in runs}) > 1 else set[str].union
    names = join(*({*run.config} for run in runs))
    options = [{name: value for name, value in run.options.items() if name in names} for run in runs]
    return _differing("options that differ", "option", options, runs)


def data_table(runs: Sequence[RunRecord]) -> Table:
    """The data in which the runs differ: what they read, and digests of it."""
    facts = []
    for run in runs:
        read: dict[str, Any] = {}
        for split, counts in run.result.data.items():
            read |= {f"{split}, {words}": counts[name] for name, words in COUNTED.items() if name in counts}
        read |= {f"{split}, digest": digest for split, digest in run.config.get("data_digests", {}).items()}
        facts.append(read | {"digest": run.config["data_digest"]} if "data_digest" in run.config else read)
    return _differing("data that differ", "data", facts, runs)


def _differing(title: str, head: str, columns: Sequence[dict[str, Any]], runs: Sequence[RunRecord]) -> Table:
    names = dict.fromkeys(name for column in columns for name in column)
    rows = [[name.replace("_", " "), *(column.get(name) for column in columns)] for name in names]
    return Table(title, [head, *(run.name for run in runs)], [row for row in rows if len(set(map(str, row[1:]))) > 1])


def _remarks(compared: Evaluation | None) -> list[str]:
    if compared is None:
        return []
    return [
        f"Differences are to {compared.model}, on the same resamples of the same {compared.examples:,} examples"
        " (paired bootstrap); significant if the interval leaves out 0."
    ]


def disagreements(first: RunRecord, other: RunRecord) -> list[dict[str, Any]]:
    """The examples that one run gets right and the other wrong, the most confident errors first; of values the largest gaps."""
    found = [run.evaluation.mistakes if run.evaluation else [] for run in (first, other)]
    mine, theirs = ({each.get("id", each.get("example")): each for each in mistakes} for mistakes in found)
    mine_alone = [_said(each, first, each, other, None) for key, each in mine.items() if key not in theirs]
    theirs_alone = [_said(each, first, None, other, each) for key, each in theirs.items() if key not in mine]
    in_turn = chain.from_iterable(zip_longest(mine_alone, theirs_alone))
    return [each for each in in_turn if each] or _values_apart(first, other, mine, theirs)


def _values_apart(first: RunRecord, other: RunRecord, mine: Mistakes, theirs: Mistakes) -> list[dict[str, Any]]:
    """The examples with the largest differences between the errors of two runs, where these are numbers."""
    both = [(each, theirs[key]) for key, each in mine.items() if "error" in each]
    both.sort(key=lambda pair: -abs(abs(pair[0]["error"]) - abs(pair[1]["error"])))
    return [_said(own, first, own, other, their) for own, their in both]


def _said(
    example: dict[str, Any],
    first: RunRecord,
    mine: dict[str, Any] | None,
    other: RunRecord,
    theirs: dict[str, Any] | None,
) -> dict[str, Any]:
    """An example, the right answer, and what each run says; one that has made no mistake is right."""
    shown = {name: example[name] for name in ("text", "question", "text_pair", "gold") if name in example}
    by_run = {first.name: mine, other.name: theirs}
    return shown | {name: "right" if own is None else own["predicted"] for name, own in by_run.items()}


def _disagreements(first: RunRecord, other: RunRecord) -> Section:
    found = disagreements(first, other)
    mine, theirs = (number_of(sum(each.get(run.name) == "right" for each in found), "time") for run in (first, other))
    text = f"{first.name} alone is right {mine}, {other.name} alone {theirs}."
    if mine == theirs == "0 times":
        text = f"{first.name} and {other.name} get the same examples right."
        text = f"The examples whose errors differ most between {first.name} and {other.name}." if found else text
    return Section(f"{first.name} beside {other.name}", [text], examples=found[:MOST_SHOWN])


def _has_content(section: Section) -> bool:
    return bool(section.text or section.charts or section.tables or section.examples)
