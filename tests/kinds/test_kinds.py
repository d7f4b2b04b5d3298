"""What holds for all kinds of task."""

from pathlib import Path

import datasets
import pytest
from transformers import AutoModelForMultipleChoice

from bertcli.errors import UserError
from bertcli.kinds.classification import CLASSIFICATION
from bertcli.lifecycle.evaluate import evaluate
from bertcli.lifecycle.finetune import finetune
from bertcli.lifecycle.predict import predict
from bertcli.lifecycle.sources import find_source
from bertcli.reports.tables import score_table
from bertcli.tasks import TASKS, get_task


def test_the_hub_gives_what_the_official_files_give(monkeypatch: pytest.MonkeyPatch) -> None:
    tags = datasets.ClassLabel(names=list(TASKS["conll2003"].labels))
    sets = {
        "allenai/swag": datasets.Dataset.from_dict(
            {"sent1": ["A."], "sent2": ["He"], **{f"ending{n}": [f"goes {n}."] for n in range(4)}, "label": [2]},
            datasets.Features(
                {
                    **{
                        name: datasets.Value("string")
                        for name in ("sent1", "sent2", "ending0", "ending1", "ending2", "ending3")
                    },
                    "label": datasets.ClassLabel(names=["0", "1", "2", "3"]),
                }
            ),
        ),
        "stanfordnlp/imdb": datasets.Dataset.from_dict(
            {"text": ["A film."], "label": [1]},
            datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["neg", "pos"])}),
        ),
        "tomaarsen/conll2003": datasets.Dataset.from_dict(
            {"tokens": [["EU", "rejects"]], "ner_tags": [[3, 0]]},
            datasets.Features(
                {"tokens": datasets.Sequence(datasets.Value("string")), "ner_tags": datasets.Sequence(tags)}
            ),
        ),
    }
    monkeypatch.delenv("BERT_DATA", raising=False)
    monkeypatch.setattr(datasets, "load_dataset", lambda name, subset, split, **options: sets[name])
    swag = find_source("swag", None, {}).read("dev").examples
    assert (swag.texts, swag.choices[0][2], swag.labels) == (["A."], "He goes 2.", ["2"])
    imdb = find_source("imdb", None, {})
    assert CLASSIFICATION.targets(imdb.task, imdb.read("dev").examples).tolist() == [1]
    sentences = find_source("conll2003", None, {}).read("dev").examples
    assert (sentences.words, sentences.tags) == ([["EU", "rejects"]], [["B-ORG", "O"]])


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("CoNLL-2003", "conll2003"),
        ("Swag", "swag"),
        ("AX", "glue/ax"),
        ("SQuAD-v2", "squad_v2"),
        ("squad2", "squad_v2"),
        ("SQuAD 1.1", "squad"),
        ("squad_v1.1", "squad"),
        ("SQuAD 2.0", "squad_v2"),
    ],
)
def test_names_of_tasks_are_forgiving(name: str, task: str) -> None:
    assert get_task(name) is TASKS[task]


def test_a_run_has_one_name_however_its_task_was_spelled(
    at_home: Path, swag_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match="is finished"):  # and not: was started with another task
        finetune("SWAG", resume=True, out=str(swag_run))
    named = []
    monkeypatch.setattr("bertcli.lifecycle.finetune.begin", lambda command, config, name: named.append(name) or 1 / 0)
    for spelled in ("sst-2", "SST2", "glue/sst2"):
        with pytest.raises(ZeroDivisionError):
            finetune(spelled)
    assert named == ["glue-sst2"] * 3


def test_a_split_without_labels_is_refused_before_the_model_runs(
    at_home: Path, swag_run: Path, tmp_path: Path, said: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "swag").mkdir()
    (tmp_path / "swag" / "test.csv").write_text("sent1,sent2,ending0,ending1,ending2,ending3\nx,He,a,b,c,d\n")
    with pytest.raises(UserError, match="The split `test` of swag has no labels"):
        evaluate("swag", split="test", model=[str(swag_run)], data_dir=str(tmp_path))
    assert "loaded" not in said.text


def test_the_papers_scores_say_their_split() -> None:
    rows = score_table("glue/mnli", "dev", {"accuracy": 80.0, "dev_mismatched_accuracy": 81.0}).rows
    assert rows == [
        ["accuracy", 80.0, "84.4 (-4.40) dev", "86.6 (-6.60) dev"],
        ["accuracy, mismatched", 81.0, "83.4 (-2.40) test", "85.9 (-4.90) test"],
    ]
    assert TASKS["swag"].paper_scores("test") == {"large accuracy": 86.3}
    assert TASKS["glue/ax"].paper_scores("dev") == {}


def test_a_model_of_another_kind_is_refused(at_home: Path, swag_run: Path, conll_run: Path) -> None:
    with pytest.raises(UserError, match=r"BertForMultipleChoice\) is not of the kind `tag`"):
        evaluate("conll2003", model=str(swag_run), data_dir="official")
    with pytest.raises(UserError, match="needs a text with choices"):
        predict("the cat", model=str(swag_run))
    with pytest.raises(UserError, match="at least two choices"):
        predict("the cat", choice=["sat"], model=str(swag_run))
    with pytest.raises(UserError, match="needs one text"):
        predict("the cat", text_pair="the dog", model=str(conll_run))


def test_another_kind_can_be_learnt_from_a_fine_tuned_model(
    at_home: Path, swag_run: Path, conll_run: Path, tmp_path: Path
) -> None:
    run = finetune("swag", data_dir="official", from_=str(conll_run), epochs=0.1, out=str(tmp_path / "run"))
    assert AutoModelForMultipleChoice.from_pretrained(run.model).classifier.weight.shape[0] == 1
