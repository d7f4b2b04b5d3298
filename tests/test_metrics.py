"""Metrics are those of scikit-learn, scipy and the official SQuAD scripts, and need no network."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import pearsonr
from sklearn.metrics import f1_score, matthews_corrcoef

from bertcli.evaluation import evaluate
from bertcli.metrics.classification import Classification
from bertcli.metrics.regression import Regression
from bertcli.metrics.squad import Squad, normalize_answer

LABELS = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=40)


@given(LABELS)
@settings(max_examples=15, deadline=None)
def test_classification_scores_are_scikit_learns(pairs: list[tuple[int, int]]) -> None:
    predicted, true = (list(side) for side in zip(*pairs, strict=True))
    scores = Classification(keep_in_memory=True).compute(predictions=predicted, references=true)
    assert scores["accuracy"] == pytest.approx(100 * np.mean(np.array(predicted) == np.array(true)))
    assert scores["f1"] == pytest.approx(100 * f1_score(true, predicted, zero_division=0))
    assert scores["matthews_correlation"] == pytest.approx(100 * matthews_corrcoef(true, predicted))


def test_one_class_only_has_a_matthews_correlation_of_0() -> None:
    assert (
        Classification(keep_in_memory=True).compute(predictions=[1, 1, 1], references=[1, 0, 1])["matthews_correlation"]
        == 0
    )


def test_correlations_are_scipys_and_0_for_constants() -> None:
    predicted, true = [1.0, 2.5, 2.0, 4.0], [0.5, 3.0, 2.0, 5.0]
    scores = Regression(keep_in_memory=True).compute(predictions=predicted, references=true)
    assert scores["pearson"] == pytest.approx(100 * pearsonr(predicted, true)[0])
    assert Regression(keep_in_memory=True).compute(predictions=[1.0] * 4, references=true) == {
        "spearmanr": 0,
        "pearson": 0,
    }


def test_answers_are_compared_without_articles_case_and_punctuation() -> None:
    assert normalize_answer("The  Cat, (a) dog's!") == "cat dogs"
    scores = Squad(keep_in_memory=True).compute(predictions=["the cat", "x y"], references=[["A cat."], ["y z", "q"]])
    assert scores == {"exact_match": 50, "f1": pytest.approx(75)}


def test_a_question_without_an_answer_wants_an_empty_one() -> None:
    scores = Squad(keep_in_memory=True).compute(predictions=["", "x", "y"], references=[[""], [""], ["y"]])
    assert scores["NoAns_exact_match"] == 50
    assert scores["HasAns_f1"] == 100
    assert scores["exact_match"] == pytest.approx(200 / 3)


@pytest.mark.parametrize(
    ("task", "predictions", "exact", "f1"),
    [
        ("squad", "preds-v1.1-bert-ensemble.json", 86.206244, 92.195580),
        ("squad_v2", "preds-v2.0-bert-single.json", 78.741683, 81.775281),
    ],
)
def test_published_predictions_score_as_the_official_scripts_say(
    shared: Path, task: str, predictions: str, exact: float, f1: float
) -> None:
    result = evaluate(
        task, data_dir=str(shared / "data"), predictions=str(shared / "reference" / "squad-official" / predictions)
    )
    assert result.metrics["exact_match"] == pytest.approx(exact, abs=1e-4)
    assert result.metrics["f1"] == pytest.approx(f1, abs=1e-4)


def test_questions_without_a_prediction_score_0(workspace: Path) -> None:
    folder = workspace / "squad"
    folder.mkdir()
    questions = [
        {"id": name, "question": "?", "answers": [{"text": "blue", "answer_start": 4}]} for name in ("one", "two")
    ]
    data = {"data": [{"title": "", "paragraphs": [{"context": "The blue sky", "qas": questions}]}]}
    (folder / "dev-v1.1.json").write_text(json.dumps(data))
    Path("p.json").write_text(json.dumps({"one": "Blue", "unknown": "red"}))
    assert evaluate("squad", data_dir=".", predictions="p.json").metrics == {"f1": 50, "exact_match": 50}
