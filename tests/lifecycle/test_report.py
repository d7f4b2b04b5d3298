"""A report shows what a run has left behind, says what is missing, and compares runs on the examples that they share."""

import json
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import GOLDENS, HOSTILE
from huggingface_hub import ModelCard
from support import use_card

from bertcli.cli.main import main
from bertcli.errors import UserError
from bertcli.kinds import KINDS
from bertcli.lifecycle.report import report
from bertcli.lifecycle.reporting.provenance import command_of
from bertcli.reports.evaluation import Evaluation
from bertcli.reports.record import Answers, RunRecord
from bertcli.reports.rendering import TEMPLATES
from bertcli.reports.tables import summary_lines
from bertcli.training.result import TrainingResult
from bertcli.training.run_folder import RunFolder

SHOWN = {  # by an old run of each kind
    "classify": ["confusion matrix", "Calibration", "bert finetune data/reviews.csv"],
    "regress": ["Predicted values", "Errors: predicted minus true", "Most confident errors"],
    "multilabel": ["given wrongly", "Calibration", "by label"],
    "choose": ["Calibration"],
    "span": ["answers by kind of error", "Calibration"],
    "tag": ["by label", "LOC", "Calibration"],
    "rte": ["paper base", "confusion matrix"],
    "pretrain": ["Training loss", "masked_lm_accuracy", "token_entropy"],
}


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("before") / "home"
    shutil.copytree(GOLDENS / "before", folder)
    return folder


@pytest.fixture
def old(copied: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the runs of an older version."""
    monkeypatch.chdir(copied)
    return copied


class Elements(HTMLParser):
    """The elements of a page, and the attributes that load or run something."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.loads: list[tuple[str, str | None]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.loads += [pair for pair in attributes if pair[0].startswith("on") or pair[0] in ("src", "href", "action")]


def page_of(*runs: str, **options: Any) -> str:
    return Path(report(list(runs), **options).report).read_text(encoding="utf-8")


# --- One run


@pytest.mark.parametrize("name", SHOWN)
def test_an_old_run_of_each_kind_has_a_page_that_says_what_it_lacks(name: str, old: Path) -> None:
    page = page_of(f"runs/{name}")
    for words in (*SHOWN[name], "the version that made this run did not record it"):
        assert words in page
    assert page.count("<svg") >= 2
    assert len(page) < 1_000_000
    assert Elements(page).loads == []


def test_a_run_that_has_not_finished_has_its_curves(old: Path) -> None:
    page = page_of("runs/single")
    assert "It has not finished" in page
    assert "Training loss" in page


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda run: (run / "predictions.jsonl").unlink(), "it has kept no predictions"),
        (lambda run: (run / "predictions.jsonl").write_text("{\n" * 6), "its predictions cannot be read"),
        (lambda run: (run / "metrics.jsonl").unlink(), "there are no curves"),
        (lambda run: (run / "environment.json").unlink(), "How to repeat it"),
    ],
)
def test_what_is_lost_is_said(damage: Any, said: str, old: Path) -> None:
    shutil.copytree("runs/classify", "runs/damaged")
    try:
        damage(Path("runs/damaged"))
        assert said in page_of("runs/damaged")
    finally:
        shutil.rmtree("runs/damaged")


def test_data_that_have_changed_or_gone_are_not_mistaken_for_those_of_the_run(
    old: Path, said: pytest.LogCaptureFixture
) -> None:
    data = Path("data/reviews.csv")
    text = data.read_text()
    try:
        before = page_of("runs/classify")
        data.write_text(text + '"another one",good\n')
        assert page_of("runs/classify") == before  # is not replaced by a poorer one
        assert "runs/classify/report.html is kept as it was written with its data" in said.text
        assert "runs/classify: Errors, intervals and calibration: its data cannot be read" in said.text
        assert "data have changed since it was trained" in page_of("runs/classify", out="poor.html")
        data.unlink()
        page = page_of("runs/classify", out="poor.html")
        assert "its data cannot be read" in page
        assert "100.00" in page  # the scores stand in the run
    finally:
        data.write_text(text)


def test_what_is_no_run_is_refused(old: Path) -> None:
    with pytest.raises(UserError, match="`data` is not the folder of a run"):
        report(["data"])
    with pytest.raises(UserError, match=r"`no/folder\.html` cannot be written"):
        report(["runs/classify"], out="no/folder.html")


def test_the_latest_run_is_taken(at_home: Path, said: pytest.LogCaptureFixture, hostile: Path) -> None:
    found = report(dry_run=True)
    assert found.report == ""
    assert "(latest of " in said.text


@pytest.mark.parametrize("name", ["classify", "rte", "frozen", "span", "choose"])
def test_the_command_on_the_page_gives_the_options_of_the_run(
    name: str, old: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = yaml.safe_load(Path(f"runs/{name}/config.yaml").read_text())
    words = shlex.split(command_of(config))
    monkeypatch.setattr(sys, "argv", [*words, "--print-config"])
    with pytest.raises(SystemExit):
        main()
    repeated = yaml.safe_load(capsys.readouterr().out)
    own = {"out", "resume", "tokenizer", "text", "text_pair", "label", "kind"}  # of the run, or of its own files
    assert {key: config[key] for key in repeated.keys() & config.keys() - own} == {
        key: repeated[key] for key in repeated.keys() & config.keys() - own
    }


def test_a_pretraining_shows_which_masked_words_it_finds_and_fills_sentences(at_home: Path) -> None:
    result = TrainingResult.read(Path("runs/pretrain-tiny"))
    by_frequency, by_type = result.words.values()
    assert sum(row["count"] for row in by_frequency) == sum(row["count"] for row in by_type) > 100
    accuracy = sum(row["accuracy"] * row["count"] for row in by_type) / sum(row["count"] for row in by_type)
    assert accuracy == pytest.approx(result.metrics["masked_lm_accuracy"], abs=0.02)
    lines = [line for line in RunFolder(Path("runs/pretrain-tiny")).metrics() if "fills" in line]
    assert [line["step"] for line in lines] == [4]  # fewer steps than twenty: at the end only
    for each in lines[-1]["fills"]:
        assert each["text"].count("[MASK]") == 1
        assert [0 < share <= 1 for _, share in each["guesses"]] == [True] * 3
    page = page_of("runs/pretrain-tiny")
    for words in (
        "Which words it finds",
        "Filled sentences",
        "by type of token",
        "It finds ",
        "whether the second follows",
    ):
        assert words in page


# --- How the data were read


def test_repeated_and_skipped_rows_are_counted_and_said_beside_the_score(hostile: Path) -> None:
    data = TrainingResult.read(hostile).data
    assert (data["train"]["examples"], data["train"]["skipped"], data["train"]["duplicates"]) == (61, 2, 1)
    assert (data["dev"]["examples"], data["dev"]["in_train"]) == (22, 2)
    assert sum(data["train"]["histogram"]["counts"]) == data["train"]["inputs"]
    assert data["train"]["labels"].keys() == set(HOSTILE)
    page = (hostile / "report.html").read_text()
    assert "2 of the 22 dev examples (9.1 %) are training examples too" in page.partition("<h2>Training</h2>")[0]
    record = report(str(hostile)).runs[0]["result"]
    assert "too high, as" not in record  # only from a tenth on
    assert "also in train, which makes its score too high" in (hostile / "README.md").read_text()


def test_the_sentence_says_so_where_a_tenth_of_what_is_scored_was_trained_on() -> None:
    result = TrainingResult(task="tags.conll", seed=0, split="dev", metrics={"f1": 100.0})
    for seen, said in ((2, " (which is too high, as 2 of the 15 examples were trained on)"), (1, "")):
        read = replace(result, data={"dev": {"examples": 15, "in_train": seen}})
        known = Evaluation("tags.conll", "dev", "run", 15), Answers("It finds all")
        assert RunRecord(Path("run"), {}, {}, read, [], "", *known).sentence == f"It finds all; its F1 is 100.0{said}."


# --- Text of the user's


def test_no_text_of_the_users_is_html(hostile: Path, at_home: Path) -> None:
    pages = [
        (hostile / "report.html").read_text(),
        page_of("runs/hostile"),
        page_of("runs/hostile", "runs/pretrain-tiny"),
    ]
    for page in pages:
        found = Elements(page)
        assert found.names.count("script") == 1
        assert not {"img", "iframe", "link", "b", "object"} & set(found.names)
        assert found.loads == []
        assert f"<script>{(TEMPLATES / 'page.js').read_text()}</script>" in page
    assert "&lt;script&gt;alert(1)" in pages[0]


def test_no_text_of_the_users_is_markdown_or_yaml(hostile: Path, at_home: Path) -> None:
    card = ModelCard((hostile / "README.md").read_text())
    (scores, *_) = [result for result in card.data.eval_results or [] if result.metric_type == "accuracy"]
    assert scores.metric_value == pytest.approx(TrainingResult.read(hostile).metrics["accuracy"], abs=1e-3)
    assert scores.dataset_name == TrainingResult.read(hostile).task
    assert card.data.pipeline_tag == "text-classification"
    (repeated,) = re.findall(r"^To repeat it:\n\n```bash\n(.*)\n```$", card.text, flags=re.MULTILINE)
    assert shlex.split(repeated)[2] == str(hostile.parent.parent / 'a: "b"  #<i>')
    for text in (card.text, report([str(hostile)], dry_run=True).markdown):
        plain = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
        assert not re.search(r"<\w|</", plain)
        for table in re.findall(r"(?:^\|.*\n?)+", plain, flags=re.MULTILINE):
            assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1


def test_the_use_that_the_card_shows_works(
    hostile: Path, at_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for run in (hostile, Path("runs/pretrain-tiny")):
        assert "tensor(" in use_card(run, monkeypatch, capsys)


# --- Several runs


@pytest.fixture
def two(old: Path) -> Iterator[tuple[str, str]]:
    """A run, and a copy of it with another seed and two answers turned round."""
    other = Path("runs/other")
    shutil.copytree("runs/classify", other)
    lines = [json.loads(line) for line in (other / "predictions.jsonl").read_text().splitlines()]
    for line in lines[:2]:
        line["label"] = {"good": "bad", "bad": "good"}[line["label"]]
    (other / "predictions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    config = yaml.safe_load((other / "config.yaml").read_text()) | {"seed": 0, "learning_rate": 0.1}
    (other / "config.yaml").write_text(yaml.safe_dump(config))
    yield "runs/classify", str(other)
    shutil.rmtree(other)


def test_runs_are_compared_on_the_examples_that_they_share(
    two: tuple[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["bert", "report", *two, "--json", "--quiet"])
    with pytest.raises(SystemExit):
        main()
    found = json.loads(capsys.readouterr().out)
    (other,) = found["comparison"]["others"]
    assert other["to_first"]["accuracy"]["difference"] == pytest.approx(-100 * 2 / 6, abs=1e-4)
    assert other["to_first"]["accuracy"].keys() == {"difference", "confidence_interval", "significant"}
    assert found["comparison"]["options"] == {"learning rate": {"classify": 0.005, "other": 0.1}}
    assert [(each["classify"], each["other"] in ("good", "bad")) for each in other["disagreements"]] == [
        ("right", True)
    ] * 2
    page = Path(found["report"]).read_text()
    assert found["report"] == "report.html"
    for words in ("classify alone is right 2 times, other alone 0 times", "options that differ", "Training loss"):
        assert words in page


def test_the_same_stands_in_markdown_on_stdout(
    two: tuple[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["bert", "report", *two, "--quiet"])
    with pytest.raises(SystemExit):
        main()
    shown = capsys.readouterr().out
    for words in (
        "| accuracy | runs/other |",
        "| learning rate |",
        "classify alone is right 2 times",
        "paired bootstrap",
    ):
        assert words in shown


def test_runs_of_other_examples_are_beside_each_other_without_a_test(old: Path, said: pytest.LogCaptureFixture) -> None:
    found = report(["runs/classify", "runs/tag"], dry_run=True)
    assert found.comparison is None
    assert "not scored on the same examples" in found.markdown
    assert "| tag | data/tags.conll | dev | f1 |" in found.markdown
    assert "bert report" not in said.text
    report(["runs/tag", "runs/classify", "runs/classify"], dry_run=True)
    assert "scored on the same examples: bert report runs/classify runs/classify" in said.text


def test_runs_that_cannot_be_scored_again_are_not_said_to_be_of_other_examples(
    old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(old, tmp_path / "moved")
    monkeypatch.chdir(tmp_path / "moved")
    Path("data/reviews.csv").unlink()
    found = report(["runs/classify", "runs/classify"], dry_run=True)
    assert "Not all of these runs can be scored again" in found.markdown
    assert "same examples" not in found.markdown


def test_values_are_compared_by_how_far_they_are_off(old: Path) -> None:
    found = report(["runs/regress", "runs/regress"], dry_run=True)
    assert "whose errors differ most" in found.markdown


# --- What a kind says of its answers


def test_kept_predictions_have_their_probabilities(old: Path) -> None:
    span = KINDS["span"].kept_predictions(Path("runs/span"))
    assert span
    assert all(0 <= each["score"] <= 1 for each in span)
    assert KINDS["tag"].kept_predictions(Path("runs/classify/model")) is None


def test_a_run_is_compared_with_the_better_baseline() -> None:
    known = {"confidence_interval": [-1.0, 3.0], "metrics": {"accuracy": 0.0}}
    baseline = {
        "guess": {**known, "difference": 1.5, "significant": False},
        "bag_of_words": {**known, "difference": 20.0, "significant": True},
    }
    first, *_ = summary_lines(TrainingResult(task="own.csv", seed=0, baseline=baseline))
    assert first == "1.5 points above the guess (95 % interval -1.00 to 3.00: may be chance)"
