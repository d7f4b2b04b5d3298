"""Scores beside the paper's, as rows of a table."""

from __future__ import annotations

from bertcli.tasks import TASKS

SCORE_COLUMNS = ["task", "split", "metric", "ours", "paper base", "paper large", "paper's split"]


def score_rows(task_name: str, split: str, metrics: dict[str, float]) -> list[list[object]]:
    """One row a metric: ours, the paper's by size, and the split that the paper's is of."""
    task = TASKS.get(task_name)
    rows: list[list[object]] = []
    for metric, value in metrics.items():
        where = split
        plain = metric
        if metric.startswith("dev_mismatched_"):
            where, plain = "dev_mismatched", metric.removeprefix("dev_mismatched_")
        paper = task.paper_scores(where) if task else {}
        base, large = paper.get(f"base {plain}"), paper.get(f"large {plain}")
        shown = (task.paper_split(where) if task else "") if base or large else None
        rows.append([task_name, where, plain, round(value, 4), base, large, shown])
    return rows
