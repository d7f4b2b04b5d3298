"""Results as rows, and as tables of a notebook, in which no text is HTML."""

from dataclasses import dataclass

import pandas as pd

from bertcli.data.results import ROWS_SHOWN, Result
from bertcli.lifecycle.predict import Predictions
from bertcli.lifecycle.report import Report
from bertcli.reports.evaluation import Evaluation
from bertcli.training.result import TrainingResult

HOSTILE = "<script>alert('x')</script>&\"<img src=x onerror=alert(1)>"


@dataclass(frozen=True)
class Written(Result):
    out: str
    count: int
    parts: list[str]
    share: float | None = None


def test_a_result_is_one_row_of_its_single_values() -> None:
    assert Written("vocab", 3, ["a"], 0.5).rows == [{"out": "vocab", "count": 3, "share": 0.5}]


def test_a_report_has_a_row_for_each_run_and_metric() -> None:
    run = {
        "run": "runs/a",
        "task": "mine",
        "metrics": {"f1": 80.0, "accuracy": 90.0},
        "confidence_intervals": {"f1": [70.0, 85.0]},
    }
    first, second = Report("report.html", "", [run]).rows
    assert first == {"run": "runs/a", "task": "mine", "metric": "f1", "score": 80.0, "low": 70.0, "high": 85.0}
    assert second["low"] is None


def test_no_text_of_a_result_is_html() -> None:
    records = [{"label": HOSTILE, "score": 0.5, "scores": {HOSTILE: 0.5, "b": 0.25}}]
    results = [
        Written(HOSTILE, 1, []),
        Predictions(HOSTILE, "classify", 1, None, records),
        Evaluation(HOSTILE, HOSTILE, HOSTILE, 3, {HOSTILE: 1.0}),
        TrainingResult(task=HOSTILE, seed=0, metrics={HOSTILE: 1.0}),
    ]
    for result in results:
        page = result._repr_html_()
        assert "&lt;script&gt;" in page
        assert "<script" not in page
        assert "<img" not in page


def test_long_tables_and_texts_are_shortened_and_that_is_said() -> None:
    page = Predictions("m", "classify", 99, None, [{"label": "x" * 999, "score": 1 / 3}] * 99)._repr_html_()
    assert page.count("<tr>") == ROWS_SHOWN + 1
    assert "… and 79 more rows" in page
    assert "x" * 200 not in page
    assert "<td>0.3333</td>" in page


def test_scores_go_into_pandas_with_their_intervals_and_of_all_models_and_splits() -> None:
    second = Evaluation("glue/mnli", "dev", "b", 9, {"accuracy": 50.0})
    other_split = Evaluation("glue/mnli", "dev_mismatched", "a", 9, {"accuracy": 60.0})
    intervals = {"accuracy": [40.0, 80.0]}
    baseline = {"guess": {"metrics": {"accuracy": 33.0}}}
    paper = {"base accuracy": 84.4}
    first = Evaluation(
        "glue/mnli",
        "dev",
        "a",
        9,
        {"accuracy": 70.0},
        paper,
        confidence_intervals=intervals,
        baseline=baseline,
        others=[second],
        other_splits=[other_split],
    )
    frame = pd.DataFrame(first.rows)
    assert frame["score"].tolist() == [70.0, 50.0, 60.0]
    assert frame["model"].tolist() == ["a", "b", "a"]
    assert frame.loc[0, ["low", "high", "paper_base", "guess"]].tolist() == [40.0, 80.0, 84.4, 33.0]


def test_predictions_of_every_form_are_flat_rows() -> None:
    records = [{"labels": ["a", "b"], "scores": {"a": 0.9, "b": 0.8}}, {"value": 1.5}, {"answer": "x", "score": 0.1}]
    rows = Predictions("m", "any", 3, None, records).rows
    assert rows[0] == {"prediction": ["a", "b"], "score_a": 0.9, "score_b": 0.8}
    assert rows[1:] == [{"prediction": 1.5}, {"answer": "x", "score": 0.1}]
