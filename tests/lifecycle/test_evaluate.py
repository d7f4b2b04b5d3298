"""An evaluation says how sure its scores are, what is confused with what, which mistakes are worst, and which model is better."""

import csv
import json
import random
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import write_reviews
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

from bertcli.cli.main import main
from bertcli.data.text.tables import read_table
from bertcli.errors import UserError
from bertcli.lifecycle.baseline import baseline
from bertcli.lifecycle.evaluate import Evaluation, evaluate
from bertcli.lifecycle.finetune import finetune
from bertcli.lifecycle.predict import predict
from bertcli.lifecycle.predicting.files import write_predictions
from bertcli.metrics.classification import Classification, MultiLabel
from bertcli.metrics.entities import Entities
from bertcli.metrics.metric import confidence_interval, resampled_scores
from bertcli.metrics.regression import Regression
from bertcli.metrics.squad import Squad
from bertcli.tasks import TASKS

TAGS = ["O", "O", "B-PER", "I-PER", "B-LOC"]
NUMBER = st.integers(0, 3)
EXAMPLES: dict[Any, st.SearchStrategy[Any]] = {  # a metric, and the pairs of prediction and truth that it takes
    Classification: st.tuples(NUMBER, NUMBER),
    Regression: st.tuples(st.integers(-3, 3).map(lambda whole: whole / 7), st.integers(-3, 3)),
    MultiLabel: st.tuples(*[st.lists(st.integers(0, 1), min_size=3, max_size=3)] * 2),
    Entities: st.tuples(*[st.lists(st.sampled_from(TAGS), min_size=4, max_size=4)] * 2),
    Squad: st.tuples(st.sampled_from(["", "red sky", "sky"]), st.lists(st.sampled_from(["sky", "blue"]), max_size=2)),
}


# --- Intervals


@pytest.mark.parametrize("metric", EXAMPLES, ids=lambda metric: metric.__name__)
@given(data=st.data())
@settings(max_examples=15)
def test_an_example_that_counts_twice_is_as_two_examples(metric: Any, data: st.DataObject) -> None:
    pairs = data.draw(st.lists(EXAMPLES[metric], min_size=1, max_size=8))
    counts = data.draw(st.lists(NUMBER, min_size=len(pairs), max_size=len(pairs)).filter(any))
    sides = [[pair[side] for pair in pairs] for side in (0, 1)]
    often = [[value for value, count in zip(side, counts, strict=True) for _ in range(count)] for side in sides]
    weighted = metric(keep_in_memory=True).weighted(predictions=sides[0], references=sides[1])
    scores = metric(keep_in_memory=True).compute(predictions=often[0], references=often[1])
    found = weighted(np.array([counts, counts]))
    for name in scores.keys() & found.keys():
        assert 100 * found[name] == pytest.approx([scores[name]] * 2, abs=1e-9)
    assert scores.keys() & found.keys() >= set(list(scores)[:2])


def test_the_interval_of_accuracy_is_that_of_its_distribution() -> None:
    """The sum of resampled right answers is binomial, so the interval can be told beforehand."""
    predicted = [1] * 300 + [0] * 100
    weighted = Classification(keep_in_memory=True).weighted(predicted, [1] * 400)
    interval = confidence_interval(resampled_scores(weighted, 400)["accuracy"])
    assert interval == pytest.approx([100 * binom.ppf(share, 400, 0.75) / 400 for share in (0.025, 0.975)], abs=0.5)
    assert interval == confidence_interval(resampled_scores(weighted, 400)["accuracy"])


# --- Predictions of every task: what the official files say, and predictions of which the last is wrong

GLUE = {
    "glue/cola": ("CoLA/dev.tsv", "a\t1\t\tx\na\t0\t\ty\na\t1\t\tz\n", "label\n1\n0\n0\n"),
    "glue/sst2": ("SST-2/dev.tsv", "sentence\tlabel\nx\t1\ny\t0\nz\t1\n", "prediction\npositive\nnegative\n0\n"),
    "glue/mrpc": ("MRPC/dev.tsv", "h\n1\t1\t2\tx\tx\n0\t1\t2\ty\ty\n1\t1\t2\tz\tz\n", "pred\n1\n0\n0\n"),
    "glue/qqp": ("QQP/dev.tsv", "h\n" + "".join(f"1\t1\t2\tx\tx\t{n}\n" for n in (1, 0, 1)), "label\n1\n0\n0\n"),
    "glue/wnli": ("WNLI/dev.tsv", "h\n0\tx\tx\t1\n1\ty\ty\t0\n2\tz\tz\t1\n", "label\n1\n0\nnot_entailment\n"),
    "glue/stsb": (
        "STS-B/dev.tsv",
        "h\n" + "".join("a\t" * 7 + f"x\ty\t{value}\n" for value in (1, 2.5, 4)),
        "index\tprediction\n0\t1\n1\t2.5\n2\t0\n",
    ),
    **{
        f"glue/{name.lower()}": (
            f"{name}/dev.tsv",
            "h\n0\tx\tx\tentailment\n1\ty\ty\tnot_entailment\n2\tz\tz\tentailment\n",
            "index\tprediction\n0\tentailment\n1\tnot_entailment\n2\tnot_entailment\n",
        )
        for name in ("QNLI", "RTE")
    },
    "glue/mnli": (
        "MNLI/dev_matched.tsv",
        "sentence1\tsentence2\tgold_label\nx\tx\tneutral\ny\ty\tentailment\nz\tz\tcontradiction\n",
        "label\nneutral\nentailment\nneutral\n",
    ),
    "glue/ax": (
        "diagnostic/diagnostic-full.tsv",
        "Premise\tHypothesis\tLabel\nx\tx\tneutral\ny\ty\tentailment\nz\tz\tcontradiction\n",
        "index\tprediction\n0\tneutral\n1\tentailment\n2\tentailment\n",
    ),
}
QUESTIONS = {
    "data": [
        {
            "title": "",
            "paragraphs": [
                {
                    "context": "The blue sky",
                    "qas": [
                        {"id": word, "question": f"{word}?", "answers": [{"text": word, "answer_start": 4}]}
                        for word in ("blue", "sky", "The blue sky")
                    ],
                }
            ],
        }
    ]
}
OTHERS = {
    "swag": (
        "swag/val.csv",
        "sent1,sent2,ending0,ending1,ending2,ending3,label\n" + "".join(f"x,He,a,b,c,d,{n}\n" for n in (1, 2, 3)),
        "choice\n1\n2\n0\n",
    ),
    "conll2003": (
        "conll2003/valid.txt",
        "Ann B-PER\nruns O\n\nIn O\nParis B-LOC\n\nBob B-PER\nSmith I-PER\n\n",
        "Ann B-PER\nruns O\n\nIn O\nParis B-LOC\n\nBob B-PER\nSmith O\n\n",
    ),
    "banking77": (
        "banking77/test.csv",
        "text,category\nx,card_arrival\ny,age_limit\nz,top_up_failed\n",
        "label\ncard_arrival\nage_limit\ncard_arrival\n",
    ),
    "imdb": ("imdb/test.csv", "text,label\nx,pos\ny,neg\nz,pos\n", "label\npos\nneg\nneg\n"),
    "squad": ("squad/dev-v1.1.json", json.dumps(QUESTIONS), '{"blue": "blue", "sky": "sky", "The blue sky": "sky"}'),
    "squad_v2": ("squad/dev-v2.0.json", json.dumps(QUESTIONS), '{"blue": "blue", "sky": "sky", "The blue sky": ""}'),
}
PREDICTED = {**{name: (f"glue/{path}", *rest) for name, (path, *rest) in GLUE.items()}, **OTHERS}


@pytest.mark.parametrize("name", TASKS)
def test_predictions_of_every_task_are_scored_and_the_wrong_one_is_listed(workspace: Path, name: str) -> None:
    path, data, predictions = PREDICTED[name]
    Path(path).parent.mkdir(parents=True)
    Path(path).write_text(data)
    file = Path("predictions").with_suffix(
        ".json" if "squad" in name else ".txt" if name == "conll2003" else ".tsv" if "\t" in predictions else ".csv"
    )
    file.write_text(predictions)
    result = evaluate(name, data_dir=".", predictions=str(file), mistakes=5)
    assert result.examples == 3
    assert result.metrics[TASKS[name].metrics[0]] < 100
    assert result.confidence_intervals.keys() == result.metrics.keys()
    assert all(low <= high for low, high in result.confidence_intervals.values())
    (mistake,) = result.mistakes
    assert mistake["gold"] != mistake["predicted"]
    assert mistake.get("example", 3) == 3


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "json"])
def test_tags_and_answers_are_read_in_every_form_that_predict_writes(workspace: Path, ending: str) -> None:
    for name, records in (
        ("conll2003", [{"tags": ["B-PER", "O"]}, {"tags": ["O", "B-LOC"]}, {"tags": ["B-PER", "O"]}]),
        ("squad_v2", [{"id": question, "answer": "sky", "null_odds": -1.5} for question in ("blue", "sky")]),
    ):
        path, data, _ = PREDICTED[name]
        Path(path).parent.mkdir()
        Path(path).write_text(data)
        write_predictions((({}, record) for record in records), Path(f"p.{ending}"))
        if name == "conll2003":
            assert evaluate(name, data_dir=".", predictions=f"p.{ending}").metrics["f1"] == pytest.approx(200 / 3)
        elif ending != "json":  # which is the official form
            found = evaluate(name, data_dir=".", predictions=f"p.{ending}", na_probs=f"p.{ending}").metrics
            assert found["exact_match"] == pytest.approx(100 / 3)
            assert found["best_f1_thresh"] == -1.5


def write_sentiment(gold: str) -> None:
    Path("glue/SST-2").mkdir(parents=True)
    Path("glue/SST-2/dev.tsv").write_text("sentence\tlabel\n" + "".join(f"x\t{label}\n" for label in gold))


def test_predictions_are_taken_by_their_index_and_not_from_the_column_of_the_truth(
    workspace: Path, said: pytest.LogCaptureFixture
) -> None:
    write_sentiment("0110")
    rows = [(0, 0, 0), (1, 1, 1), (2, 1, 0), (3, 0, 0)]
    for name, order in (("a.tsv", rows), ("b.tsv", rows[::-1])):
        Path(name).write_text("index\tlabel\tprediction\n" + "".join("{}\t{}\t{}\n".format(*row) for row in order))
        assert evaluate("sst2", data_dir=".", predictions=name).metrics == {"accuracy": 75}
    assert "the column `prediction` is scored, not `label`" in said.text
    assert "b.tsv: rows are sorted by `index`" in said.text
    assert "a.tsv: its rows" not in said.text
    Path("c.tsv").write_text("index\tprediction\n0\t1\n1\t1\n2\t0\n2\t0\n")
    with pytest.raises(UserError, match=r"`c.tsv` line 5 has the index 2 again, and 3 nowhere"):
        evaluate("sst2", data_dir=".", predictions="c.tsv")
    for name in ("idx", "id", "guid"):
        lines = [json.dumps({name: number, "prediction": found}) for number, _, found in rows[::-1]]
        Path("n.jsonl").write_text("\n".join(lines))
        assert evaluate("sst2", data_dir=".", predictions="n.jsonl").metrics == {"accuracy": 75}
    Path("n.jsonl").write_text("\n".join(json.dumps({"id": f"x{row}", "prediction": row[2]}) for row in rows))
    assert evaluate("sst2", data_dir=".", predictions="n.jsonl").metrics == {"accuracy": 75}
    assert "its column `id` does not count from 0; the rows are taken as they stand" in said.text
    Path("d.tsv").write_text("index\tprediction\n0\t1\n1\t1\n3\t0\n4\t0\n")
    with pytest.raises(UserError, match=r"`d.tsv` line 4 has the index 3 where 2 is next"):
        evaluate("sst2", data_dir=".", predictions="d.tsv")
    Path("e.tsv").write_text("index\tprediction\n2\t1\n1\t1\n0\t0\n-1\t0\n")
    with pytest.raises(UserError, match=r"`e.tsv` line 5 has the index `-1`"):
        evaluate("sst2", data_dir=".", predictions="e.tsv")


@pytest.mark.parametrize(
    ("name", "file", "text", "message"),
    [
        (
            "sst2",
            "p.csv",
            "prediction\n1\nfine\n",
            "`p.csv` line 3 has the label `fine`, which is not a label of glue/sst2",
        ),
        (
            "conll2003",
            "p.conll",
            "Ann B-PER\n\nwalks O\n",
            "Sentence 2 of `p.conll` has other words than the dev split",
        ),
        ("squad", "p.json", '{"blue": null}', "is not a JSON object of question ids and texts"),
        ("squad", "p.json", '{"blue": ["blue"]}', "is not a JSON object of question ids and texts"),
        ("squad", "p.json", '[["blue", "blue"]]', "is not a JSON object of question ids and texts"),
    ],
)
def test_predictions_that_are_not_of_the_split_are_refused(
    workspace: Path, name: str, file: str, text: str, message: str
) -> None:
    write_sentiment("01")
    for folder, split, data in (
        ("conll2003", "valid.txt", "Ann B-PER\n\nruns O\n"),
        ("squad", "dev-v1.1.json", json.dumps(QUESTIONS)),
    ):
        Path(folder).mkdir()
        Path(folder, split).write_text(data)
    Path(file).write_text(text)
    with pytest.raises(UserError, match=message):
        evaluate(name, data_dir=".", predictions=file)


def test_predictions_of_own_rows_are_matched_by_the_numbers_that_both_files_have(
    workspace: Path, said: pytest.LogCaptureFixture
) -> None:
    rows = [("3", "d", "no"), ("0", "a", "yes"), ("2", "", "no"), ("1", "b", "yes")]
    Path("mine.csv").write_text("id,text,label\n" + "".join(",".join(row) + "\n" for row in rows))
    answers = {"3": "no", "0": "yes", "2": "yes", "1": "no"}
    for order in (rows, rows[::-1], sorted(rows)):
        Path("p.csv").write_text("id,prediction\n" + "".join(f"{row[0]},{answers[row[0]]}\n" for row in order))
        assert evaluate("mine.csv", predictions="p.csv").metrics["accuracy"] == pytest.approx(200 / 3)
    assert "p.csv: rows are matched by `id`; 1 have no example that is scored" in said.text
    Path("p.csv").write_text("prediction\n" + "".join(f"{answers[row[0]]}\n" for row in rows))
    assert evaluate("mine.csv", predictions="p.csv").metrics["accuracy"] == pytest.approx(200 / 3)
    assert "p.csv: its rows are those of `mine.csv`; 1 have no example" in said.text
    Path("p.csv").write_text("prediction\nno\nyes\nno\n")
    assert evaluate("mine.csv", predictions="p.csv").metrics["accuracy"] == pytest.approx(200 / 3)
    Path("p.csv").write_text("prediction\nno\nyes\n")
    with pytest.raises(UserError, match=r"has 2 predictions, the dev split of mine.csv 3 examples"):
        evaluate("mine.csv", predictions="p.csv")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("id,prediction\nq3,pos\nq2,neg\nqX,neg\n", "`p.csv` has no predictions for the `id` q1"),
        ("ID,prediction\nq3,pos\nq2,neg\nq2,neg\nq1,neg\n", "`p.csv` has 2 predictions for the `ID` q2"),
        ("text,prediction\nbad film,neg\ngood film,pos\nso good,pos\n", "line 2 has the `text` of another example"),
        ("review,prediction\ngood film,pos\nso good,pos\nbad film,neg\n", "line 3 has the `review` of another"),
    ],
)
def test_predictions_in_another_order_are_refused(workspace: Path, rows: str, message: str) -> None:
    Path("mine.csv").write_text("id,text,label\nq1,good film,pos\nq2,bad film,neg\nq3,so good,pos\n")
    Path("p.csv").write_text(rows)
    with pytest.raises(UserError, match=message):
        evaluate("mine.csv", predictions="p.csv")


def test_numbers_that_are_not_those_of_the_rows_are_said(workspace: Path, said: pytest.LogCaptureFixture) -> None:
    Path("mine.csv").write_text("id,text,label\nq1,good film,pos\nq2,bad film,neg\nq3,so  good,pos\n")
    Path("p.csv").write_text("id,text,prediction\n0,good film,pos\n1,bad film,neg\n2,so good,neg\n")
    assert evaluate("mine.csv", predictions="p.csv").metrics["accuracy"] == pytest.approx(200 / 3)
    assert "its column `id` does not tell which row is which; the rows are taken as they stand" in said.text
    Path("p.csv").write_text("ID,prediction\nq3,pos\nq2,neg\nq1,neg\n")
    assert evaluate("mine.csv", predictions="p.csv").metrics["accuracy"] == pytest.approx(200 / 3)
    assert "p.csv: rows are matched by `id`" in said.text


def test_official_predictions_and_tags_in_another_order_are_refused(workspace: Path) -> None:
    write_sentiment("0110")
    texts = ["dull", "fine", "great", "long"]
    lines = [f"{text}\t{label}\n" for text, label in zip(texts, "0110", strict=True)]
    Path("glue/SST-2/dev.tsv").write_text("sentence\tlabel\n" + "".join(lines))
    lines = [json.dumps({"sentence": text, "prediction": 1}) for text in texts]
    Path("p.jsonl").write_text("\n".join(lines))
    assert evaluate("sst2", data_dir=".", predictions="p.jsonl").metrics["accuracy"] == 50
    Path("p.jsonl").write_text("\n".join(lines[::-1]))
    with pytest.raises(UserError, match=r"`p.jsonl` line 1 has the `sentence` of another example"):
        evaluate("sst2", data_dir=".", predictions="p.jsonl")
    Path("conll2003").mkdir()
    Path("conll2003/valid.txt").write_text("Ann B-PER\n\nruns O\n")
    rows = [{"tokens": ["Ann"], "tags": ["B-PER"]}, {"tokens": ["runs"], "tags": ["O"]}]
    Path("p.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert evaluate("conll2003", data_dir=".", predictions="p.jsonl").metrics["f1"] == 100
    Path("p.jsonl").write_text("\n".join(map(json.dumps, rows[::-1])))
    with pytest.raises(UserError, match=r"`p.jsonl` line 1 has the `tokens` of another example"):
        evaluate("conll2003", data_dir=".", predictions="p.jsonl")


def test_a_score_of_the_input_is_not_the_probability_of_a_prediction(workspace: Path) -> None:
    Path("mine.csv").write_text("text,score\ngood film,1\nbad film,0\nso good,1\n")
    given = zip("001", (0.6, 0.7, 0.9), strict=True)
    answers = [{"label": label, "score": share, "scores": {"0": 0.5, "1": 0.5}} for label, share in given]
    write_predictions(zip(read_table(Path("mine.csv")).cells, answers, strict=True), Path("p.csv"))
    found = evaluate("mine.csv", label="score", predictions="p.csv", mistakes=1)
    assert found.mistakes[0]["probability"] == 0.6


def test_what_does_not_go_with_a_file_of_predictions_is_refused(workspace: Path) -> None:
    Path("mine.csv").write_text("text,label\ngood film,pos\nbad film,neg\n")
    with pytest.raises(UserError, match=r"`mine.csv` has no predictions beside its labels"):
        evaluate("mine.csv", predictions="mine.csv")
    with pytest.raises(UserError, match="--engine has no effect"):
        evaluate("mine.csv", predictions="mine.csv", engine="onnx")
    Path("p.csv").write_text("text,label\ngood film,pos\n")
    Path("squad").mkdir()
    Path("squad/dev-v1.1.json").write_text(json.dumps(QUESTIONS))
    with pytest.raises(UserError, match=r"`p.csv` has no column `answer`") as caught:
        evaluate("squad", data_dir=".", predictions="p.csv")
    assert "a row needs id and answer" in caught.value.hint


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_new_predictions_are_scored_beside_older_ones_of_the_same_file(
    workspace: Path, said: pytest.LogCaptureFixture, ending: str
) -> None:
    Path("mine.csv").write_text("text,prediction,score,label\n" + "a,2,0.9,1\nb,1,0.8,2\nc,1,0.7,1\n")
    read = read_table(Path("mine.csv")).cells
    shares = {"1": 0.6, "2": 0.4}
    answers = [{"label": row["label"], "score": 0.6, "scores": shares} for row in read]
    write_predictions(zip(read, answers, strict=True), Path(f"p.{ending}"))
    assert evaluate("mine.csv", label="label", predictions=f"p.{ending}").metrics["accuracy"] == 100
    assert "is scored, which was added beside an older `prediction`" in said.text


def test_labels_in_another_case_are_known_unless_case_tells_them_apart(
    workspace: Path, said: pytest.LogCaptureFixture
) -> None:
    write_sentiment("011")
    Path("p.csv").write_text("label\nNEGATIVE\nPositive\nNEGATIVE\n")
    assert evaluate("sst2", data_dir=".", predictions="p.csv").metrics["accuracy"] == pytest.approx(200 / 3)
    assert "p.csv: labels are matched ignoring case: `NEGATIVE` for `negative`, `Positive`" in said.text
    write_labels(["0", "1", "1"], ["0.0", "1.0", "1"])  # as a column of numbers is spelled where one is missing
    assert evaluate("mine.csv", predictions="p.csv").metrics["accuracy"] == 100
    write_labels(["a", "A", "B"], ["a", "A", "b"])
    with pytest.raises(UserError, match=r"line 4 has the label `b`, which is not a label of mine.csv"):
        evaluate("mine.csv", predictions="p.csv")


def test_a_model_may_have_the_labels_in_another_case(at_home: Path, rivals: tuple[str, str], tmp_path: Path) -> None:
    ignore = shutil.ignore_patterns("checksums.sha256")  # of a configuration that is changed on purpose
    model = shutil.copytree(f"{rivals[0]}/model", tmp_path / "model", ignore=ignore)
    config = (model / "config.json").read_text()
    (model / "config.json").write_text(config.replace('"good"', '"GOOD"').replace('"bad"', '"Bad"'))
    upper, lower = (evaluate("judged.csv", model=[str(path)]) for path in (model, rivals[0]))
    assert (upper.metrics, upper.labels) == (lower.metrics, lower.labels)


def test_a_label_in_brackets_is_no_list_of_labels(workspace: Path) -> None:
    Path("gold.csv").write_text("text,label\n" + "a text,good\nanother text,[other]\n" * 6)
    Path("predicted.csv").write_text("text,prediction\n" + "a text,[other]\nanother text,[other]\n" * 6)
    assert evaluate("gold.csv", predictions="predicted.csv").metrics["accuracy"] == 50


def test_lists_of_labels_are_scored_as_such_without_a_model(workspace: Path) -> None:
    true = [["a"], [], ["a", "b"], ["b"]]
    given_ = [["a"], [], ["b"], ["a"]]
    rows = [json.dumps({"text": f"t{n}", "labels": labels}) for n, labels in enumerate(true)]
    Path("films.jsonl").write_text("\n".join(rows))
    Path("films.csv").write_text(
        "text,labels\n" + "\n".join(f"t{n},{'|'.join(labels)}" for n, labels in enumerate(true))
    )
    scores = [{"a": 0.6 * ("a" in labels), "b": 0.7 * ("b" in labels)} for labels in given_]
    both = [{"labels": labels, "scores": shares} for labels, shares in zip(given_, scores, strict=True)]
    Path("p.jsonl").write_text("\n".join(json.dumps(record) for record in both))
    with Path("p.csv").open("w", newline="") as file:
        columns = [[json.dumps(labels), *shares.values()] for labels, shares in zip(given_, scores, strict=True)]
        csv.writer(file).writerows([["labels", "score a", "score b"], *columns])
    first, *others = (
        evaluate(films, predictions=predictions, mistakes=9)
        for films in ("films.jsonl", "films.csv")
        for predictions in ("p.jsonl", "p.csv")
    )
    assert first.metrics["subset_accuracy"] == 50
    assert first.labels["b"] == {"precision": 100, "recall": 50, "f1": pytest.approx(200 / 3), "support": 2}
    surest = [
        (mistake["text"], mistake["gold"], mistake["predicted"], mistake["probability"]) for mistake in first.mistakes
    ]
    assert surest == [("t2", ["a", "b"], ["b"], 1.0), ("t3", ["b"], ["a"], 1.0)]
    assert all((other.metrics, other.labels) == (first.metrics, first.labels) for other in others)


def test_what_is_said_of_own_data_is_taken_without_a_run_and_before_what_the_run_says(
    at_home: Path, rivals: tuple[str, str]
) -> None:
    Path("marks.csv").write_text("text,a,b\nx,1,0\ny,1,1\nz,0,0\n")
    Path("p.jsonl").write_text("\n".join(json.dumps({"labels": labels}) for labels in (["a"], ["b"], [])))
    found = evaluate("marks.csv", predictions="p.jsonl", label="a,b")
    assert found.metrics["subset_accuracy"] == pytest.approx(200 / 3, abs=1e-5)
    Path("stars.csv").write_text("text,stars\nx,1\ny,3\n")
    Path("p.csv").write_text("value\n1\n4\n")
    assert evaluate("stars.csv", predictions="p.csv", kind="regress").metrics["pearson"] == pytest.approx(100)
    rows = Path("judged.csv").read_text().splitlines()[1:]
    Path("both.csv").write_text("text,label,mood\n" + "".join(f"{row},good\n" for row in rows))
    learnt, said = (evaluate("both.csv", model=[rivals[0]], **given) for given in ({}, {"label": "mood"}))
    assert learnt.labels["bad"]["support"] > 0 == said.labels["bad"]["support"]


def test_tags_that_are_no_list_are_refused(workspace: Path) -> None:
    Path("conll2003").mkdir()
    Path("conll2003/valid.txt").write_text("Ann B-PER\n\nruns O\n")
    Path("p.jsonl").write_text('{"tags": ["O"]}\n{"words": ["runs"]}\n')
    with pytest.raises(UserError, match="line 2 has no list of tags"):
        evaluate("conll2003", data_dir=".", predictions="p.jsonl")


def test_tags_of_types_that_the_task_has_not_are_said(workspace: Path, said: pytest.LogCaptureFixture) -> None:
    Path("conll2003").mkdir()
    Path("conll2003/valid.txt").write_text("Ann B-PER\n\nruns O\n")
    Path("p.jsonl").write_text('{"tags": ["B-PERSON"]}\n{"tags": ["O"]}\n')
    assert evaluate("conll2003", data_dir=".", predictions="p.jsonl").metrics["f1"] == 0
    assert "tags of unknown types count as errors: `B-PERSON` (1)" in said.text


# --- Labels, confusion and mistakes


def write_labels(true: list[str], predicted: list[str], shares: list[float] | None = None) -> None:
    Path("mine.csv").write_text("text,label\n" + "".join(f"text {n},{label}\n" for n, label in enumerate(true)))
    columns = zip(predicted, shares or [0.5] * len(true), strict=True)
    lines = [f"{label},{share}" if shares else label for label, share in columns]
    Path("p.csv").write_text("\n".join(["label,score" if shares else "label", *lines]) + "\n")


def test_each_label_is_scored_and_confusions_are_counted(workspace: Path) -> None:
    draw = random.Random(0)
    true, predicted = (draw.choices("abc", k=60) for _ in range(2))
    write_labels(true, predicted)
    result = evaluate("mine.csv", predictions="p.csv")
    assert result.confusion_matrix == confusion_matrix(true, predicted).tolist()
    expected = precision_recall_fscore_support(true, predicted, zero_division=0)
    for row, name in enumerate("abc"):
        found = result.labels[name]
        assert found["support"] == expected[3][row]
        ours = [found[key] for key in ("precision", "recall", "f1")]
        assert ours == pytest.approx([100 * column[row] for column in expected[:3]], abs=1e-5)


def test_types_of_entities_are_scored(workspace: Path) -> None:
    path, data, predictions = PREDICTED["conll2003"]
    Path("conll2003").mkdir()
    Path(path).write_text(data)
    Path("p.txt").write_text(predictions)
    result = evaluate("conll2003", data_dir=".", predictions="p.txt", mistakes=1)
    assert result.labels["LOC"] == {"precision": 100, "recall": 100, "f1": 100, "support": 1}
    assert result.labels["PER"] == {"precision": 50, "recall": 50, "f1": 50, "support": 2}
    assert result.mistakes[0] == {
        "example": 3,
        "text": "Bob Smith",
        "gold": ["PER: Bob Smith"],
        "predicted": ["PER: Bob"],
        "wrong_entities": 2,
    }


def test_the_surest_mistakes_come_first(workspace: Path) -> None:
    write_labels(list("aabb"), list("abaa"), [0.99, 0.6, 0.9, 0.7])
    result = evaluate("mine.csv", predictions="p.csv", mistakes=2)
    assert [(mistake["text"], mistake["probability"]) for mistake in result.mistakes] == [
        ("text 2", 0.9),
        ("text 3", 0.7),
    ]
    assert result.mistakes[0] | {"gold": "b", "predicted": "a", "example": 3} == result.mistakes[0]
    assert result.mistakes[0]["place"] == "`mine.csv` line 4"


def test_without_probabilities_mistakes_keep_their_order_and_that_is_said(
    workspace: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_labels(list("aabb"), list("abaa"))
    with caplog.at_level("INFO", logger="bertcli"):
        result = evaluate("mine.csv", predictions="p.csv", mistakes=9)
    assert [mistake["text"] for mistake in result.mistakes] == ["text 1", "text 2", "text 3"]
    assert "no probabilities are given: equally wrong errors are in the order of the split" in caplog.messages


def test_the_worst_values_and_answers_are_the_farthest_off(workspace: Path) -> None:
    for name in ("glue/stsb", "squad"):
        path, data, _ = PREDICTED[name]
        Path(path).parent.mkdir(parents=True)
        Path(path).write_text(data)
    Path("p.csv").write_text("value\n1.5\n0\n4.2\n")
    values = evaluate("stsb", data_dir=".", predictions="p.csv", mistakes=2).mistakes
    assert [(mistake["gold"], mistake["error"]) for mistake in values] == [(2.5, -2.5), (1.0, 0.5)]
    Path("p.json").write_text('{"blue": "red", "The blue sky": "sky"}')
    answers = evaluate("squad", data_dir=".", predictions="p.json", mistakes=9).mistakes
    assert [(mistake["question"], mistake["predicted"]) for mistake in answers] == [
        ("blue?", "red"),
        ("sky?", None),
        ("The blue sky?", "sky"),
    ]
    assert answers[2]["f1"] == pytest.approx(200 / 3)


def test_probabilities_that_are_no_numbers_are_refused(workspace: Path) -> None:
    write_labels(list("ab"), list("aa"))
    Path("p.csv").write_text("label,score\na,much\nb,0.5\n")
    with pytest.raises(UserError, match="line 2 has `much`, which is no number"):
        evaluate("mine.csv", predictions="p.csv")


# --- Several models


@pytest.fixture(scope="session")
def rivals(home: Path) -> tuple[str, str]:
    """Two runs on the same task: one that learnt it, one that did not; each held out its own part of the file."""
    file = write_reviews(home / "rivals.csv", 80)
    shutil.copy(file, home / "judged.csv")
    start = {"from_": str(home / "runs" / "pretrain-tiny"), "batch_size": 8, "learning_rate": 2e-3}
    good = finetune(str(file), out=str(home / "runs" / "good"), epochs=8, **start)
    bad = finetune(str(file), out=str(home / "runs" / "bad"), epochs=0.001, seed=1, **start)
    return good.run, bad.run


def test_models_are_compared_on_the_same_resamples(at_home: Path, rivals: tuple[str, str]) -> None:
    good, bad = rivals
    result = evaluate("judged.csv", model=[good, bad, good])
    worse, same = result.others
    alone = evaluate("judged.csv", model=bad)
    assert (worse.metrics, worse.confidence_intervals) == (alone.metrics, alone.confidence_intervals)
    found = worse.to_first["accuracy"]
    assert found["difference"] == pytest.approx(alone.metrics["accuracy"] - result.metrics["accuracy"], abs=1e-5)
    assert found["confidence_interval"][0] <= found["difference"] <= found["confidence_interval"][1] < 0
    assert found["significant"]
    assert same.to_first["accuracy"] == {"difference": 0, "confidence_interval": [0, 0], "significant": False}


def test_models_that_held_out_different_examples_are_not_compared(at_home: Path, rivals: tuple[str, str]) -> None:
    with pytest.raises(UserError, match="are not scored on the same examples"):
        evaluate("rivals.csv", model=list(rivals))


def test_what_a_run_wrote_of_its_own_part_is_scored_with_the_run(rivals: tuple[str, str], at_home: Path) -> None:
    good = rivals[0]
    written = f"{good}/predictions.jsonl"
    wanted = evaluate("rivals.csv", model=[good]).metrics
    assert evaluate("rivals.csv", model=[good], predictions=written).metrics == wanted
    with pytest.raises(UserError, match=r"has 8 predictions, the dev split of rivals.csv 80") as found:
        evaluate("rivals.csv", predictions=written)
    assert "--model RUN" in found.value.hint


def test_the_model_of_a_run_is_scored_as_the_run(at_home: Path, rivals: tuple[str, str]) -> None:
    run, model = (evaluate("rivals.csv", model=[name]) for name in (rivals[0], f"{rivals[0]}/model"))
    assert (model.examples, model.metrics) == (run.examples, run.metrics)
    assert model.examples == 8  # the part that the run held out


def test_predictions_with_a_model_that_is_no_run_are_refused(at_home: Path, rivals: tuple[str, str]) -> None:
    for name, message in (("runs/typo", "There is no model `runs/typo`"), ("typo", "Unknown model `typo`")):
        with pytest.raises(UserError, match=message):
            evaluate("rivals.csv", model=[name], predictions=f"{rivals[0]}/predictions.jsonl")


def test_predictions_are_scored_alone(rivals: tuple[str, str]) -> None:
    with pytest.raises(UserError, match="--predictions are scored alone"):
        evaluate("judged.csv", model=list(rivals), predictions="p.csv")


# --- What a person sees


def shown(arguments: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(sys, "argv", ["bert", "evaluate", "--quiet", *arguments.split()])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    return capsys.readouterr().out


def test_scores_stand_beside_the_papers_with_interval_and_difference(
    workspace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, data, predictions = PREDICTED["glue/mrpc"]
    Path(path).parent.mkdir(parents=True)
    Path(path).write_text(data)
    Path("p.csv").write_text(predictions)
    out = shown("mrpc --data-dir . --predictions p.csv --mistakes 1", capsys, monkeypatch)
    f1, accuracy = (
        [cell.strip() for cell in line.split("  ") if cell.strip()]
        for line in out.splitlines()
        if line.split()[:1] in (["f1"], ["accuracy"])
    )
    assert f1 == ["f1", "66.6667", "0.00 to 100.00", "88.9 (-22.23) test", "89.3 (-22.63) test"]
    assert accuracy[-1].endswith("dev")  # the paper has it of dev
    for heading in ("95 % interval", "precision", "true \\ predicted", "most confident or largest errors"):
        assert heading in out
    values = json.loads(shown("mrpc --data-dir . --predictions p.csv --json", capsys, monkeypatch))
    assert values["confidence_interval"] == values["confidence_intervals"]["f1"]
    assert values["difference"]["base f1"] == pytest.approx(200 / 3 - 88.9, abs=1e-5)
    assert values["paper_splits"] == {
        "base f1": "test",
        "large f1": "test",
        "base accuracy": "dev",
        "large accuracy": "dev",
    }
    assert values["confusion_matrix"] == [[1, 0], [1, 1]]


def test_of_many_labels_the_most_confused_pairs_are_shown(
    workspace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"label{number}" for number in range(21)]
    write_labels(names * 3, [*names, *names[:-1], "label3", *names[:-1], "label3"])
    out = shown("mine.csv --predictions p.csv", capsys, monkeypatch)
    assert "true \\ predicted" not in out
    assert out.rstrip().splitlines()[-1].split() == ["label20", "label3", "2"]


def test_models_stand_below_one_another_with_the_paper(
    at_home: Path, rivals: tuple[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = shown(f"judged.csv --model {rivals[0]} --model {rivals[1]}", capsys, monkeypatch)
    first, second = (line for line in out.splitlines() if line.split()[:1] == ["accuracy"])
    assert second.split()[-1] == "yes"
    assert first.split()[-3:] == ["–", "–", "–"]


def test_an_evaluation_of_nothing_has_no_interval() -> None:
    assert Evaluation("mine", "dev", "", 0).to_json()["confidence_interval"] is None


def test_a_split_without_examples_is_refused(workspace: Path) -> None:
    Path("squad").mkdir()
    Path("squad/dev-v1.1.json").write_text('{"data": []}')
    Path("p.json").write_text("{}")
    with pytest.raises(UserError, match="The dev split of squad has no examples"):
        evaluate("squad", data_dir=".", predictions="p.json")


# --- What a run has learnt from


def write_films(path: str, rows: range, **labels: str) -> str:
    """Rows of texts that say their label, one in ten with another label if one is given."""
    Path(path).parent.mkdir(exist_ok=True)
    lines = [f"{('good', 'bad')[row % 2]} film {row},{'yn'[row % 2]}" for row in rows]
    for tenth, label in labels.items():
        lines[:: int(tenth.strip("_"))] = [f"{line[:-1]}{label}" for line in lines[:: int(tenth.strip("_"))]]
    Path(path).write_text("text,label\n" + "\n".join(lines) + "\n")
    return path


def test_no_dev_set_is_cut_off_examples_that_were_all_trained_on(workspace: Path) -> None:
    write_films("films/train.csv", range(60))
    write_films("films/test.csv", range(60, 90))
    run = baseline("films")
    assert run.next[0] == f"bert evaluate films --model {run.run} --split test"
    with pytest.raises(UserError, match="`films` has no dev set, and") as refused:
        evaluate("films", model=[run.run])
    assert refused.value.hint == f"Score the test set: bert evaluate films --split test --model {run.run}"
    assert evaluate("films", model=[run.run], split="test").examples == 30


def test_examples_that_a_run_was_trained_on_are_counted(workspace: Path, said: pytest.LogCaptureFixture) -> None:
    whole, part = write_films("whole.csv", range(60)), write_films("part.csv", range(40, 80))
    learnt, limited = baseline(whole, out="learnt").run, baseline(whole, limit=30, out="limited").run
    others = write_films("others.csv", range(60, 90))
    ends = {
        (whole, learnt): "these examples",
        (part, learnt): "20 of these 40 examples",
        (whole, limited): "30 of these 60 examples",
    }
    for (file, run), which in ends.items():
        words = f"{run} was trained on {which}: its scores on them say little of new ones"
        assert evaluate(file, model=[run]).remarks == [words]
        assert words in said.text
    assert evaluate(others, model=[learnt]).remarks == []
    config = Path(limited, "config.yaml")
    config.write_text(config.read_text() + "limit_dev: 5\n")
    assert evaluate(whole, model=[limited]).remarks == [words]


def test_labels_that_a_run_has_not_learnt_are_said(workspace: Path) -> None:
    run = baseline(write_films("films.csv", range(60))).run
    scores = evaluate(write_films("others.csv", range(60, 100), _10="m"), model=[run])
    assert scores.remarks == [f"{run} has not learnt all labels of dev; others count as errors: `m` (4)"]
    assert scores.metrics["accuracy"] == 90


def test_labels_in_other_case_are_the_same_where_one_is_meant(workspace: Path) -> None:
    run = baseline(write_films("films.csv", range(60))).run
    labels = ["n", "y"]
    rows = [f"a film,{label.upper()}\n" for label in labels]
    Path("upper.csv").write_text("text,label\n" + "".join(rows))
    assert evaluate("upper.csv", model=[run]).remarks == []
    Path("both.csv").write_text("text,label\n" + "".join(rows) + f"a film,{labels[0]}\n")
    (remark,) = evaluate("both.csv", model=[run]).remarks
    assert all(f"`{label.upper()}` (1)" in remark for label in labels)


def test_that_a_run_is_not_finished_is_said(workspace: Path, said: pytest.LogCaptureFixture) -> None:
    run = baseline(write_films("films.csv", range(60))).run
    (Path(run) / "result.json").unlink()
    words = "is not finished; this is the model of the last step that was kept"
    assert evaluate(write_films("others.csv", range(60, 90)), model=[run]).remarks == [f"{run} {words}"]
    assert said.text.count(words) == 1
    Path(run).rename("begun")
    predict("the cat", model="begun")
    assert f"begun {words}" in said.text


def test_the_interval_of_a_group_of_questions_is_of_as_many_as_it_has(workspace: Path) -> None:
    answers = [[], [{"text": "cat", "answer_start": 4}]]
    asked = [
        {"id": str(row), "question": "What?", "answers": answers[row % 3 > 0], "is_impossible": row % 3 == 0}
        for row in range(60)
    ]
    paragraphs = [{"context": "The cat sat on the mat.", "qas": asked}]
    Path("asked.json").write_text(json.dumps({"version": "2", "data": [{"title": "t", "paragraphs": paragraphs}]}))
    Path("given.json").write_text(json.dumps({each["id"]: "the mat" for each in asked}))
    intervals = evaluate("asked.json", predictions="given.json").confidence_intervals
    for name, count in {"exact_match": 60, "HasAns_exact_match": 40, "NoAns_exact_match": 20, "NoAns_f1": 20}.items():
        assert intervals[name] == [0, pytest.approx(100 * (1 - 0.025 ** (1 / count)), abs=1e-4)]
