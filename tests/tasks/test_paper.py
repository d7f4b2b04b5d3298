"""The paper's numbers are the printed ones, and each task reads its own."""

import pytest

from bertcli.tasks import TASKS
from bertcli.tasks.paper import FROZEN_SCORES, TABLES


def test_each_row_of_a_table_has_a_cell_per_column() -> None:
    for table in TABLES.values():
        assert all(len(row) == len(table.columns) for row in table.rows.values())


def test_the_averages_of_table_1_are_those_of_its_scores() -> None:
    for *scores, average in TABLES[1].rows.values():
        assert sum(score or 0 for score in scores) / len(scores) == pytest.approx(average, abs=0.06)


@pytest.mark.parametrize(
    ("task", "scores"),
    [
        (
            "glue/sst2",
            {
                "test": {"base accuracy": 93.5, "large accuracy": 94.9},
                "dev": {"base accuracy": 92.7, "large accuracy": 93.7},
            },
        ),
        (
            "glue/mrpc",
            {"test": {"base f1": 88.9, "large f1": 89.3}, "dev": {"base accuracy": 86.7, "large accuracy": 87.8}},
        ),
        (
            "squad_v2",
            {
                "dev": {"large exact_match": 78.7, "large f1": 81.9},
                "test": {"large exact_match": 80.0, "large f1": 83.1},
            },
        ),
        ("conll2003", {"dev": {"base f1": 96.4, "large f1": 96.6}, "test": {"base f1": 92.4, "large f1": 92.8}}),
        ("imdb", {}),
    ],
)
def test_a_task_has_the_scores_of_the_tables(task: str, scores: dict[str, dict[str, float]]) -> None:
    assert TASKS[task].paper == scores


def test_the_last_four_layers_are_the_best_features() -> None:
    assert max(FROZEN_SCORES, key=FROZEN_SCORES.__getitem__) == "concat-last-four"
