"""A baseline is a run like any other: fitted, saved, scored, predicted from and reported."""

import csv
import json
import random
import shlex
import sys
from pathlib import Path

import pytest
from conftest import write_reviews
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.pipeline import make_pipeline, make_union

from bertcli import baseline, errors, evaluate, export, finetune, predict, report
from bertcli.cli.main import main
from bertcli.errors import UserError

FEW = "text,label\n" + "the cat,good\na dog,bad\n" * 12
TAGGED = "Ada B-PER\nlived O\nin O\nRome B-LOC\n. O\n\nBob B-PER\nsaw O\nAda B-PER\nthere O\n\n"


def write_values(path: Path) -> Path:
    rows = [f"{'good ' * (number % 5)}day {number},{number % 5 + 0.5}" for number in range(60)]
    path.write_text("text,label\n" + "\n".join(rows) + "\n")
    return path


def write_several(path: Path) -> Path:
    draw, lines = random.Random(0), []
    for number in range(80):
        labels = [name for name in ("red", "big") if draw.random() < 0.6]
        lines.append(json.dumps({"text": " ".join([*labels, "thing", str(number % 7)]), "label": labels}))
    path.write_text("\n".join(lines))
    return path


def write_choices(path: Path) -> Path:
    draw = random.Random(0)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["sent1", "ending0", "ending1", "label"])
        for number in range(80):
            right = draw.randrange(2)
            endings = ["is a sad dog", "is a sad cat"]
            endings[right] = f"is a happy {draw.choice(['bird', 'cow'])}"
            writer.writerow([f"It {number % 5}", *endings, right])
    return path


@pytest.mark.parametrize("write", [write_reviews, write_values, write_several, write_choices])
def test_a_bag_of_words_learns_every_kind_of_text_and_is_scored_from_its_folder_as_it_was_fitted(
    workspace: Path, write: object
) -> None:
    path = workspace / "own"
    path.mkdir()
    for split in ("train", "dev"):
        write(path / f"{split}.{'jsonl' if write is write_several else 'csv'}")  # type: ignore[operator]
    guess, run = (baseline(str(path), method=method) for method in ("majority", "bag-of-words"))
    metric = next(iter(run.metrics))
    assert run.metrics[metric] > 90 > guess.metrics[metric]
    assert evaluate(str(path), model=[run.run]).metrics == run.metrics
    beside = report([guess.run, run.run]).comparison
    assert beside is not None
    assert beside["others"][0]["to_first"][metric]["significant"]
    names = {"config.yaml", "environment.json", "metrics.jsonl", "predictions.jsonl", "README.md", "report.html"}
    assert names <= {each.name for each in Path(run.run).iterdir()}


def test_a_run_below_the_bag_of_words_names_the_command_that_makes_one(
    home: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_reviews(workspace / "own.csv")
    start = str(home / "runs" / "pretrain-tiny")
    run = finetune("own.csv", from_=start, text="text", learning_rate=1e-9, epochs=1, max_seq_length=5)
    beside = run.baseline["bag_of_words"]
    assert beside["significant"]
    assert beside["difference"] < 0
    assert run.next[0] == "bert baseline own.csv --text text"
    monkeypatch.setattr(sys, "argv", shlex.split(run.next[0]))
    with pytest.raises(SystemExit, match=r"^0$"):
        main()
    assert Path("runs/own-bag-of-words/model").exists()


def test_few_examples_without_a_dev_set_are_all_fitted_to_and_cross_validated(workspace: Path) -> None:
    rows = [f"{word} {number},{word}" for number in range(12) for word in ("good", "bad")]
    rows += [
        f"{word} alone,{label}" for word, label in (("once", "good"), ("never", "bad"))
    ]  # no other part has these words
    Path("few.csv").write_text("text,label\n" + "\n".join(rows) + "\n")
    run, guess = (baseline("few.csv", method=method) for method in ("bag-of-words", "majority"))
    assert run.split == guess.split == "cross_validated"
    assert len(Path(run.run, "predictions.jsonl").read_text().splitlines()) == len(rows)
    assert guess.metrics["accuracy"] == 50
    assert 90 < run.metrics["accuracy"] < 100 == evaluate("few.csv", model=[run.run]).metrics["accuracy"]
    assert baseline("few.csv", method="lstm", epochs=1).split == "dev"


def test_examples_whose_labels_occur_once_cannot_be_cross_validated(workspace: Path) -> None:
    Path("once.csv").write_text("text,label\n" + "".join(f"the cat {row},label {row}\n" for row in range(40)))
    for learn in (baseline, finetune):
        with pytest.raises(UserError, match="each label occurs once"):
            learn("once.csv")


def test_the_text_of_the_vectors_is_looked_for_before_anything_is_fitted(workspace: Path) -> None:
    Path("few.csv").write_text(FEW)
    for options in ({"method": "static-vectors"}, {"method": "lstm", "vectors": "static"}):
        with pytest.raises(UserError, match="nofile"):
            baseline("few.csv", vectors_text=["nofile"], dry_run=True, **options)


@pytest.mark.parametrize(
    ("file", "options", "package"),
    [
        ("few.csv", {"method": "static-vectors"}, "gensim"),
        ("few.csv", {"method": "lstm", "vectors": "static"}, "gensim"),
        ("few.conll", {}, "pycrfsuite"),
    ],
)
def test_a_dry_run_says_which_package_is_missing(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, file: str, options: dict[str, str], package: str
) -> None:
    Path("few.csv").write_text(FEW)
    Path("few.conll").write_text(TAGGED * 4)
    monkeypatch.setattr(errors, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=f"needs {package}, which is not installed") as raised:
        baseline(file, dry_run=True, **options)
    assert "pip install 'bertcli[vectors]'" in raised.value.hint


@pytest.mark.parametrize("by_length", [False, True])
def test_a_bag_of_words_reaches_what_scikit_learn_reaches_by_hand(workspace: Path, by_length: bool) -> None:
    draw = random.Random(1)
    for split, count in {"train": 300, "dev": 200}.items():
        with Path(f"{split}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["text", "label"])
            for _ in range(count):
                label = draw.choice("abc")
                count_of_words = draw.randrange(2, 40) if by_length else 6
                own = [draw.choice([f"{label}w{draw.randrange(40)}", f"w{draw.randrange(90)}"]) for _ in range(6)]
                words = [f"w{draw.randrange(90)}" for _ in range(count_of_words)] if by_length else own
                writer.writerow([" ".join(words), "abc"[min(2, count_of_words // 12)] if by_length else label])
    parts = [list(csv.DictReader(Path(f"{split}.csv").read_text().splitlines())) for split in ("train", "dev")]
    texts, labels = ([[row[key] for row in part] for part in parts] for key in ("text", "label"))
    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"(?u)\w+|[^\w\s]")
    union = make_union(words, TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5), sublinear_tf=True))
    by_hand = make_pipeline(union, LogisticRegression(C=10, max_iter=1000)).fit(texts[0], labels[0])
    plain = make_pipeline(TfidfVectorizer(), LogisticRegression(max_iter=1000)).fit(texts[0], labels[0])
    ours = baseline("train.csv,dev.csv").metrics["accuracy"]
    assert ours == pytest.approx(100 * accuracy_score(labels[1], by_hand.predict(texts[1])))
    assert ours >= 100 * accuracy_score(labels[1], plain.predict(texts[1])) - 2


def test_a_fine_tuned_model_is_taken_before_a_baseline_and_both_are_said(
    home: Path, workspace: Path, said: pytest.LogCaptureFixture
) -> None:
    write_reviews(workspace / "own.csv", 60)
    simple = baseline("own.csv")
    assert predict("the cat, happily green garden").model == f"{simple.run}/model"
    assert "(a baseline, the only run that fits)" in said.text
    tuned = finetune("own.csv", from_=str(home / "runs/pretrain-tiny"), epochs=0.5, baseline=False)
    baseline("own.csv")
    assert predict("the cat, happily green garden").model == f"{tuned.run}/model"
    assert "the only run that fits, but for 2 baselines; --model names another" in said.text
    assert predict("the cat, happily green garden", model=simple.run).rows[0]["prediction"] == "good"


def test_tags_are_the_most_frequent_of_each_word_and_entities_are_found_in_a_text(workspace: Path) -> None:
    Path("words.conll").write_text(TAGGED * 10)
    run = baseline("words.conll", method="majority")
    assert run.metrics["f1"] == 100
    assert [each["text"] for each in predict("Ada left Rome.").records[0]["entities"]] == ["Ada", "Rome"]  # type: ignore[index]


def test_what_needs_a_bert_refuses_a_baseline(workspace: Path) -> None:
    write_reviews(workspace / "own.csv")
    run = baseline("own.csv", method="majority").run
    for wrong in (
        lambda: finetune("own.csv", from_=run),
        lambda: predict("a film", model=run, explain="words"),
        lambda: predict("a film", model=run, features="states.parquet"),
        lambda: export(run, format="safetensors"),
    ):
        with pytest.raises(UserError, match=r"baseline|--explain"):
            wrong()


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("config.json", lambda text: text.replace(b"classify", b"regress")),
        ("config.json", lambda text: text.replace(b"bag-of-words", b"bag-of-birds")),
        ("config.json", lambda text: b"{"),
        ("fitted.json", lambda text: text.replace(b'"words"', b'"other"')),
        ("fitted.json", lambda text: b'{"words": ["a", "a"], "characters": []}'),
        ("fitted.json", lambda text: b'{"words": ["a", {}], "characters": []}'),
        ("fitted.json", lambda text: b'{"words": ["a"], "characters": ["b"]}'),
        ("fitted.safetensors", lambda text: text[:100]),
    ],
)
@pytest.mark.parametrize("has_checksums", [True, False])
def test_a_damaged_baseline_is_an_error_of_two_lines(
    workspace: Path, name: str, change: object, has_checksums: bool
) -> None:
    write_reviews(workspace / "own.csv", 40)
    model = Path(baseline("own.csv").model)
    if not has_checksums:
        (model / "checksums.sha256").unlink()
    (model / name).write_bytes(change((model / name).read_bytes()))  # type: ignore[operator]
    with pytest.raises(UserError) as error:
        evaluate("own.csv")
    assert len(str(error.value).splitlines()) == 2


def test_a_file_that_was_trained_on_beside_another_is_said(workspace: Path, said: pytest.LogCaptureFixture) -> None:
    for name in ("first.csv", "second.csv"):
        write_reviews(Path(name), 40, seed=len(name))
    run = baseline("first.csv,second.csv", method="bag-of-words")
    evaluate("second.csv", model=[run.run])
    assert f"{run.run} was trained on these examples" in said.text
