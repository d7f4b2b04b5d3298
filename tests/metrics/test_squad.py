"""Scores of answers are those of the official SQuAD scripts."""

import json
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertcli.errors import UserError
from bertcli.lifecycle.evaluate import evaluate
from bertcli.metrics.squad import Squad, normalize_answer

LABELS = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=40)


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
    assert result.metrics["exact_match"] == pytest.approx(exact, abs=1e-6)
    assert result.metrics["f1"] == pytest.approx(f1, abs=1e-6)


# What evaluate-v2.0.py prints for the published predictions with the no-answer scores that the test makes.
OFFICIAL = {
    "squad_v2": {
        "exact_match": 76.40865830034532,
        "f1": 78.29678972614421,
        "HasAns_exact_match": 67.32456140350877,
        "HasAns_f1": 71.10623893699552,
        "NoAns_exact_match": 85.46677880571909,
        "NoAns_f1": 85.46677880571909,
        "best_exact": 78.75852775204245,
        "best_exact_thresh": 7.82,
        "best_f1": 81.77528052374699,
        "best_f1_thresh": 11.24,
    },
    "squad": {
        "exact_match": 79.59318826868495,
        "f1": 83.61308208452301,
        "best_exact": 86.20624408703878,
        "best_exact_thresh": 9.82,
        "best_f1": 92.19557978351132,
        "best_f1_thresh": 10.4,
    },
}


@pytest.mark.parametrize(
    ("task", "name"), [("squad_v2", "preds-v2.0-bert-single.json"), ("squad", "preds-v1.1-bert-ensemble.json")]
)
def test_the_best_thresholds_are_the_official_ones_ties_included(
    shared: Path, workspace: Path, caplog: pytest.LogCaptureFixture, task: str, name: str
) -> None:
    published = shared / "reference" / "squad-official" / name
    answers = json.loads(published.read_text())
    odds = {id_: int(id_[-4:], 16) % 100 / 50 + len(text.split()) / 2 - 3 for id_, text in answers.items()}
    Path("null_odds.json").write_text(json.dumps(odds))
    with caplog.at_level("INFO", logger="bertcli"):
        result = evaluate(task, data_dir=str(shared / "data"), predictions=str(published), na_probs="null_odds.json")
    assert result.metrics == pytest.approx(OFFICIAL[task], abs=1e-6)
    none = sum(odds[id_] > 1 and text != "" for id_, text in answers.items())
    assert f"{none} answers count as none: their no-answer score is above 1" in caplog.messages


ANSWERED = st.tuples(st.sampled_from(["", "blue", "red sky"]), st.sampled_from(["", "blue", "sky"]))


@given(st.lists(ANSWERED, min_size=1, max_size=8), st.randoms(use_true_random=False))
@settings(max_examples=30)
def test_the_best_threshold_beats_every_other(rows: list[tuple[str, str]], draw: random.Random) -> None:
    odds = [number + 0.5 for number in draw.sample(range(-20, 20), len(rows))]  # 0 means: none is answered
    predicted, true = [row[0] for row in rows], [[row[1]] for row in rows]

    def scored(threshold: float) -> dict[str, float]:
        kept = [text if odd <= threshold else "" for text, odd in zip(predicted, odds, strict=True)]
        return Squad(keep_in_memory=True).compute(predictions=kept, references=true)

    best = Squad(keep_in_memory=True).compute(predictions=predicted, references=true, na_probs=odds)
    for name, plain in (("best_exact", "exact_match"), ("best_f1", "f1")):
        assert best[name] == pytest.approx(max(scored(threshold)[plain] for threshold in (-21, *odds)))
        if best[f"{name}_thresh"] in odds:
            assert scored(best[f"{name}_thresh"])[plain] == pytest.approx(best[name])


def test_an_answer_of_punctuation_is_right_in_squad_1_only() -> None:
    given_ = {"predictions": ["."], "references": [["sky", "."]]}
    assert Squad("squad", keep_in_memory=True).compute(**given_) == {"exact_match": 100, "f1": 0}
    assert Squad("squad_v2", keep_in_memory=True).compute(**given_) == {"exact_match": 0, "f1": 0}


def write_questions(folder: Path, answers: dict[str, str]) -> None:
    folder.mkdir()
    questions = [
        {"id": id_, "question": "?", "answers": [{"text": text, "answer_start": 4}] if text else []}
        for id_, text in answers.items()
    ]
    data = {"data": [{"title": "", "paragraphs": [{"context": "The blue sky", "qas": questions}]}]}
    for version in ("1.1", "2.0"):
        (folder / f"dev-v{version}.json").write_text(json.dumps(data))


def test_a_threshold_is_a_no_answer_score_not_a_percentage(workspace: Path) -> None:
    write_questions(workspace / "squad", {"one": "blue", "two": "", "three": "", "four": "sky"})
    Path("p.json").write_text(json.dumps({"one": "blue", "two": "sky", "three": "", "unknown": "red"}))
    Path("odds.json").write_text(json.dumps({"two": 0.123456789, "one": -3.123456789}))
    scores = evaluate("squad_v2", data_dir=".", predictions="p.json", na_probs="odds.json").metrics
    assert scores["exact_match"] == 50  # the question without a prediction scores 0
    assert scores["best_exact"] == 75
    assert scores["best_exact_thresh"] == -3.123456789


@pytest.mark.parametrize(
    ("odds", "what"),
    [
        ('{"one": 0.5}', "has no number for 1 of the questions"),
        ('{"one": 0.5, "two": "much"}', "not a JSON object of question ids and numbers"),
        ('{"one": 0.5, "two": NaN}', "not a JSON object of question ids and numbers"),
        ("[1, 2]", "not a JSON object of question ids and numbers"),
    ],
)
def test_no_answer_scores_that_cannot_be_used_are_refused(workspace: Path, odds: str, what: str) -> None:
    write_questions(workspace / "squad", {"one": "blue", "two": ""})
    Path("p.json").write_text(json.dumps({"one": "blue", "two": "sky"}))
    Path("odds.json").write_text(odds)
    with pytest.raises(UserError, match=what):
        evaluate("squad_v2", data_dir=".", predictions="p.json", na_probs="odds.json")


@pytest.mark.parametrize(("task", "options"), [("squad_v2", {}), ("glue/cola", {"predictions": "p.json"})])
def test_no_answer_scores_belong_to_predictions_of_questions(
    workspace: Path, task: str, options: dict[str, str]
) -> None:
    Path("p.json").touch()
    with pytest.raises(UserError, match="--na-probs belongs to --predictions of questions"):
        evaluate(task, data_dir=".", na_probs="odds.json", **options)


def test_questions_without_a_prediction_score_0(workspace: Path) -> None:
    write_questions(workspace / "squad", {"one": "blue", "two": "blue"})
    Path("p.json").write_text(json.dumps({"one": "Blue", "unknown": "red"}))
    assert evaluate("squad", data_dir=".", predictions="p.json").metrics == {"f1": 50, "exact_match": 50}
