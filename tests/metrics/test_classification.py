"""Scores of classification are those of scikit-learn."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import f1_score, matthews_corrcoef

from bertcli.lifecycle.evaluate import evaluate
from bertcli.metrics.classification import Classification

LABELS = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=40)
LABELS = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=40)
MANY_LABELS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=40)


@given(st.one_of(LABELS, MANY_LABELS))
@settings(max_examples=30)
def test_classification_scores_are_scikit_learns(pairs: list[tuple[int, int]]) -> None:
    predicted, true = (list(side) for side in zip(*pairs, strict=True))
    scores = Classification(keep_in_memory=True).compute(predictions=predicted, references=true)
    assert scores["accuracy"] == pytest.approx(100 * np.mean(np.array(predicted) == np.array(true)))
    assert scores["macro_f1"] == pytest.approx(100 * f1_score(true, predicted, average="macro", zero_division=0))
    assert scores["matthews_correlation"] == pytest.approx(100 * matthews_corrcoef(true, predicted))
    if {*predicted, *true} <= {0, 1}:
        assert scores["f1"] == pytest.approx(100 * f1_score(true, predicted, zero_division=0))


@pytest.mark.parametrize(("predicted", "true"), [([1, 1, 1], [1, 0, 1]), ([1, 0, 1], [0, 0, 0]), ([0], [0])])
def test_one_class_only_has_a_matthews_correlation_of_0(predicted: list[int], true: list[int]) -> None:
    scores = Classification(keep_in_memory=True).compute(predictions=predicted, references=true)
    assert scores["matthews_correlation"] == 0
    assert scores["f1"] == (80 if predicted == [1, 1, 1] else 0)


@pytest.mark.parametrize(
    ("task", "file", "said"),
    [
        ("glue/cola", "CoLA/dev.tsv", "Matthews correlation is 0 because every prediction is the same"),
        ("glue/stsb", "STS-B/dev.tsv", "Pearson and Spearman correlations are 0 because every label is the same"),
        ("glue/mrpc", "MRPC/dev.tsv", "F1 is 0 because no prediction and no label is `equivalent`"),
    ],
)
def test_a_score_that_is_0_because_it_is_not_defined_is_said(
    workspace: Path, caplog: pytest.LogCaptureFixture, task: str, file: str, said: str
) -> None:
    rows = {
        "glue/cola": "a\t0\t\tx\na\t1\t\ty\n",
        "glue/stsb": "header\n" + "\t".join("abcdefghi") + "\t2.5\n" + "\t".join("abcdefghi") + "\t2.5\n",
        "glue/mrpc": "header\n0\t1\t2\tx\ty\n0\t1\t2\tx\tz\n",
    }[task]
    path = Path("glue") / file
    path.parent.mkdir(parents=True)
    path.write_text(rows)
    Path("p.csv").write_text("value\n1\n2\n" if task == "glue/stsb" else "label\n0\n0\n")
    with caplog.at_level("INFO", logger="bertcli"):
        scores = evaluate(task, data_dir=".", predictions="p.csv").metrics
    assert said in caplog.messages
    assert all(score == 0 for name, score in scores.items() if name != "accuracy")
