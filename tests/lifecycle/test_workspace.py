"""Which run a command takes: the latest that fits, said; or none, with the reason of each."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from bertcli import baseline, evaluate, finetune, predict, report
from bertcli.errors import UserError
from bertcli.lifecycle.workspace import find_runs, run_that_fits, task_runs

CONLL = "the O\ncat B-PER\nsat O\n\na O\ndog B-PER\n\n" * 9
FILES = {
    "reviews.csv": "text,mood\n" + "the cat,good\nthe dog,bad\n" * 9,
    "tickets.csv": "body,queue\n" + "the cat,billing\nthe dog,delivery\n" * 9,
    "prices.csv": "body,price\n" + "the cat,1.5\nthe dog,2.25\n" * 9,
    "pairs.csv": "text,text_pair,label\n" + "the cat,a cat,same\nthe dog,a cat,other\n" * 9,
    "people.conll": CONLL,
}
COLUMNS = {"reviews.csv": {"label": "mood"}, "tickets.csv": {"label": "queue"}, "prices.csv": {"label": "price"}}


@pytest.fixture(scope="module")
def runs(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of each file."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, text in FILES.items():
            Path(name).write_text(text)
            finetune(
                name, from_=str(home / "runs" / "pretrain-tiny"), epochs=0.001, baseline=False, **COLUMNS.get(name, {})
            )
    return folder


@pytest.fixture
def take(runs: Path, workspace: Path) -> Callable[..., None]:
    """Put some of the runs into the folder, the last the latest."""

    def put(*names: str) -> None:
        for name in names:
            shutil.copytree(runs / "runs" / name, f"runs/{name}", copy_function=shutil.copy)

    return put


def test_of_two_projects_the_one_whose_columns_a_file_has_predicts_it(
    take: Callable[..., None], said: pytest.LogCaptureFixture
) -> None:
    take("tickets", "reviews")
    Path("new.csv").write_text("id,body\n1,the cat\n")
    assert predict(file="new.csv").model == "runs/tickets/model"
    assert "model: runs/tickets (the only run that fits)" in said.text
    Path("new.csv").write_text("id,text\n1,the cat\n")
    assert predict(file="new.csv").model == "runs/reviews/model"


def test_where_no_run_is_finished_one_that_was_begun_is_named(take: Callable[..., None]) -> None:
    take("reviews")
    Path("runs/reviews/result.json").unlink()
    with pytest.raises(UserError, match="no finished run for one text in this folder") as caught:
        predict("the cat")
    assert caught.value.hint.endswith("or go on with what was begun: bert finetune --resume --out runs/reviews")
    Path("runs/reviews").rename("runs/my  reviews")
    with pytest.raises(UserError) as caught:
        predict("the cat")
    assert caught.value.hint.endswith("bert finetune --resume --out 'runs/my  reviews'")


def test_of_two_projects_the_one_whose_labels_a_file_has_is_scored(
    take: Callable[..., None], said: pytest.LogCaptureFixture
) -> None:
    take("reviews", "tickets", "prices")
    Path("other.csv").write_text("body,queue\nthe cat,billing\nthe dog,Delivery\n")
    assert evaluate("other.csv").model == "runs/tickets/model"
    Path("other.csv").write_text("body,price\nthe cat,2\nthe dog,3\n")
    assert evaluate("other.csv").model == "runs/prices/model"
    Path("other.csv").write_text("body,queue\nthe cat,sales\n")
    with pytest.raises(UserError, match="Unknown split `valid`"):
        evaluate("other.csv", split="valid")
    with pytest.raises(UserError, match=r"no finished run for `other.csv`") as caught:
        evaluate("other.csv")
    assert "runs/tickets has other labels: billing, delivery" in caught.value.message
    assert "runs/reviews cannot read it (unknown column" in caught.value.message
    assert "bert finetune other.csv" in caught.value.hint
    Path("other.csv").write_text("body,queue\nthe cat,billing\nthe dog,sales\n")
    with pytest.raises(UserError, match="runs/tickets has not learnt: sales"):
        evaluate("other.csv")


def test_a_file_without_the_labels_of_a_run_is_to_be_predicted(
    take: Callable[..., None], said: pytest.LogCaptureFixture
) -> None:
    take("reviews", "tickets")
    Path("a.csv").write_text("text;mood\nthe cat;good\n")
    assert evaluate("a.csv").model == "runs/reviews/model"
    assert said.text.count("its columns are separated by `;`") == 1
    Path("new texts.csv").write_text("id,text\n1,the cat\n")
    for model in ([], ["runs/reviews"]):
        with pytest.raises(UserError, match=r"`new texts.csv` has no column `mood`") as caught:
            evaluate("new texts.csv", model=model)
        assert caught.value.hint.startswith("Predict: bert predict --file 'new texts.csv'; or name the column")
    assert predict(file="new texts.csv").model == "runs/reviews/model"


def test_a_table_is_not_scored_by_a_run_of_tagged_words_nor_the_reverse(take: Callable[..., None]) -> None:
    take("reviews", "people")
    Path("other.csv").write_text("text,mood\nthe cat,good\n")
    assert evaluate("other.csv").model == "runs/reviews/model"
    Path("other.conll").write_text(CONLL)
    assert evaluate("other.conll").model == "runs/people/model"
    shutil.rmtree("runs/reviews")
    with pytest.raises(UserError, match="runs/people is of the kind `tag`"):
        evaluate("other.csv")


def test_words_in_columns_are_tagged_by_a_run_that_tags_though_another_takes_texts(take: Callable[..., None]) -> None:
    take("people", "reviews")
    Path("other.conll").write_text("the\ncat\n\na\ndog\n")
    assert predict(file="other.conll").model == "runs/people/model"
    Path("other.conll").write_text(CONLL.replace("B-PER", "S-PER"))  # of the same type
    assert evaluate("other.conll").remarks == []


def test_a_run_of_pairs_is_not_asked_for_single_texts_nor_the_reverse(take: Callable[..., None]) -> None:
    take("pairs")
    with pytest.raises(UserError, match="no finished run for one text in this folder: runs/pairs takes pairs of texts"):
        predict("the cat")
    assert predict("the cat", text_pair="a dog").model == "runs/pairs/model"
    Path("new.csv").write_text("text\nthe cat\n")
    with pytest.raises(UserError, match="runs/pairs needs the column `text_pair`"):
        predict(file="new.csv")
    take("reviews")
    shutil.rmtree("runs/pairs")
    with pytest.raises(UserError, match="a pair of texts in this folder: runs/reviews takes one text"):
        predict("the cat", text_pair="a dog")


def test_where_no_run_fits_the_reasons_are_said_and_what_to_type(take: Callable[..., None]) -> None:
    take("reviews", "tickets")
    Path("new.csv").write_text("message,id\nthe cat,1\n")
    Path("comments.csv").write_text("comment,id\nthe cat,1\n")
    with pytest.raises(UserError, match="column `text`, but --model runs/reviews takes `comment`"):
        predict(file="comments.csv")
    assert len(predict(file="comments.csv", model="runs/reviews").records) == 1
    with pytest.raises(UserError, match=r"no finished run for `new.csv`") as caught:
        predict(file="new.csv")
    assert "runs/tickets needs the column `body`, runs/reviews needs the column `text`" in caught.value.message
    with pytest.raises(UserError, match="for a question in this folder: runs/tickets takes one text"):
        predict(question="who", context="the cat")
    assert predict("the cat", model="runs/reviews").kind == "classify"


def test_of_three_that_fit_the_latest_is_taken_and_it_is_said_how_to_choose(
    take: Callable[..., None], said: pytest.LogCaptureFixture
) -> None:
    take("prices", "tickets", "reviews")
    assert predict("the cat").model == "runs/reviews/model"
    assert "model: runs/reviews (the latest of 3 runs that fit; --model names another)" in said.text


def test_a_name_that_is_nearly_a_runs_is_corrected(take: Callable[..., None]) -> None:
    take("reviews", "prices")
    for ask in (lambda: predict("the cat", model="runs/reveiws"), lambda: report("runs/reveiws")):
        with pytest.raises(UserError) as caught:
            ask()
        assert caught.value.hint == "Did you mean `runs/reviews`?"
    with pytest.raises(UserError) as caught:
        predict("the cat", model="runs/else")
    assert caught.value.hint == "Give a run under runs/, a model folder or a Hub name."


def test_a_run_in_the_place_of_the_data_is_said_to_be_one(take: Callable[..., None]) -> None:
    take("reviews")
    for name in ("reviews", "runs/reviews", "runs/reviews/"):
        with pytest.raises(UserError, match=f"`{name}` is a run") as caught:
            evaluate(name)
        assert caught.value.hint.endswith("bert evaluate reviews.csv --model runs/reviews")
    Path("data").mkdir()
    with pytest.raises(UserError, match="`runs/reviews` is a run") as caught:  # data --model runs/other runs/reviews
        evaluate("data,runs/reviews", model=["runs/other"])
    assert caught.value.hint.endswith("bert evaluate data --model runs/other --model runs/reviews")


def test_a_distilled_run_is_used_as_what_it_was_trained_on_and_a_baseline_is_not(
    workspace: Path, said: pytest.LogCaptureFixture
) -> None:
    task = "task: glue/rte\nkind: classify\n"
    made = {"whole": "pretrain", "small": "distill", "tuned": "finetune", "student": "distill", "guess": "baseline"}
    for seconds, (name, command) in enumerate(made.items()):
        run = Path("runs", name)
        (run / "model").mkdir(parents=True)
        (run / "model" / "config.json").write_text("{}")
        (run / "result.json").write_text("{}")
        (run / "config.yaml").write_text(f"command: {command}\n{task if seconds > 1 else ''}")
        os.utime(run / "config.yaml", (seconds, seconds))
    found = {
        command: [run.path.name for run in find_runs(command, finished=True)] for command in sorted({*made.values()})
    }
    assert found == {
        "baseline": ["guess"],
        "distill": ["student", "small"],
        "finetune": ["student", "tuned"],
        "pretrain": ["small", "whole"],
    }
    assert [run.path.name for run in task_runs()] == ["student", "tuned", "guess"]
    assert find_runs("finetune", finished=True, command="finetune")[0].path.name == "tuned"
    assert run_that_fits(lambda run: "", "", "").path.name == "student"
    Path("runs/student/model/config.json").rename("runs/student/config.json")
    assert [run.path.name for run in task_runs()] == ["tuned", "guess"]
    assert "the latest of 2 runs that fit, but for 1 baseline; " in said.text


def test_a_run_that_is_named_without_its_folder_is_offered(workspace: Path) -> None:
    Path("films.csv").write_text("text,label\n" + "".join(f"film {row % 2},{row % 2}\n" for row in range(40)))
    run = baseline("films.csv").run
    with pytest.raises(UserError, match="There is no model `films-bag-of-words`") as refused:
        predict("a film", model="films-bag-of-words")
    assert refused.value.hint == f"Did you mean `{run}`?"
