"""Fine-tuning, evaluation and prediction, each finding what the one before wrote."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import GOLDENS, write_reviews
from transformers import AutoModelForQuestionAnswering, AutoModelForSequenceClassification, AutoTokenizer

from bertcli.data.packing.batches import pack
from bertcli.errors import UserError
from bertcli.lifecycle.evaluate import evaluate
from bertcli.lifecycle.finetune import finetune
from bertcli.lifecycle.predict import predict
from bertcli.training.result import TrainingResult
from tests.support import load, with_loss


@pytest.fixture(scope="session")
def reviews(home: Path) -> TrainingResult:
    """A run fine-tuned on a task that can be learnt."""
    file = write_reviews(home / "reviews.csv")
    return finetune(
        str(file),
        from_=str(home / "runs" / "pretrain-tiny"),
        out=str(home / "runs" / "reviews"),
        epochs=8,
        batch_size=8,
        learning_rate=2e-3,
    )


@pytest.fixture(scope="session")
def squad_home(home: Path) -> Path:
    """A folder of official files: SQuAD's golden questions in the official places."""
    folder = home / "official" / "squad"
    folder.mkdir(parents=True, exist_ok=True)
    text = (GOLDENS / "squad" / "data_v1.json").read_text(encoding="utf-8")
    (folder / "train-v1.1.json").write_text(text, encoding="utf-8")
    (folder / "dev-v1.1.json").write_text(text, encoding="utf-8")
    finetune(
        "squad",
        data_dir=str(home / "official"),
        from_=str(home / "runs" / "pretrain-tiny"),
        out=str(home / "runs" / "squad"),
        epochs=1,
        max_seq_length=48,
        doc_stride=16,
        max_query_length=16,
    )
    return home


def test_a_learnable_task_is_learnt_and_its_best_checkpoint_kept(reviews: TrainingResult) -> None:
    assert reviews.metrics["accuracy"] > 80
    assert reviews.losses[-1] < reviews.losses[0]
    measured = [json.loads(line) for line in (Path(reviews.run) / "metrics.jsonl").read_text().splitlines()]
    assert max(line["metrics"]["accuracy"] for line in measured if "metrics" in line) == reviews.metrics["accuracy"]


@pytest.mark.usefixtures("float32")
def test_the_model_opens_in_plain_transformers_with_its_labels_and_the_same_logits(reviews: TrainingResult) -> None:
    model, info = AutoModelForSequenceClassification.from_pretrained(reviews.model, output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    assert model.config.id2label == {0: "bad", 1: "good"}
    text = "the cat, happily green garden tree"
    tokenizer = AutoTokenizer.from_pretrained(reviews.model)
    logits = model.eval()(**tokenizer(text, return_tensors="pt")).logits[0]
    shares = torch.softmax(logits, -1)
    ours = predict(text, model=reviews.run).records[0]["scores"]
    assert [ours["bad"], ours["good"]] == pytest.approx(shares.tolist(), abs=1e-5)


def test_evaluate_finds_the_newest_run_and_its_columns(at_home: Path, reviews: TrainingResult) -> None:
    result = evaluate("reviews.csv")
    assert result.model == "runs/reviews/model"
    assert result.examples == 12  # what was held out of it, not what was learnt
    assert result.metrics == reviews.metrics
    shutil.copy("reviews.csv", "others.csv")
    assert evaluate("others.csv").examples == 120


def test_predictions_of_a_file_come_in_its_order(at_home: Path, reviews: TrainingResult, tmp_path: Path) -> None:
    texts = ["the cat, happily green garden tree " * n for n in (1, 3, 2)] + ["the dog, slowly under mat", ""]
    (tmp_path / "in.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    result = predict(file=str(tmp_path / "in.txt"), output=str(tmp_path / "out.jsonl"))
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert result.count == len(lines) == 5
    for text, line in zip(texts, lines, strict=True):
        assert line["scores"]["good"] == pytest.approx(predict(text.strip()).records[0]["scores"]["good"], abs=1e-5)
    predict(file=str(tmp_path / "in.txt"), output=str(tmp_path / "out.csv"))
    assert (tmp_path / "out.csv").read_text().splitlines()[0] == "text,prediction,score,score_bad,score_good"


def test_existing_predictions_are_scored_without_a_model(
    at_home: Path, reviews: TrainingResult, tmp_path: Path
) -> None:
    labels = [line.rsplit(",", 1)[1] for line in Path("reviews.csv").read_text().splitlines()[1:]]
    (tmp_path / "p.jsonl").write_text("".join(json.dumps({"label": label}) + "\n" for label in labels))
    assert evaluate("reviews.csv", predictions=str(tmp_path / "p.jsonl")).metrics["accuracy"] == 100
    (tmp_path / "short.jsonl").write_text('{"label": "good"}\n')
    with pytest.raises(UserError, match="1 predictions"):
        evaluate("reviews.csv", predictions=str(tmp_path / "short.jsonl"))


def test_questions_are_answered_from_their_context(squad_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(squad_home)
    assert set(evaluate("squad").metrics) == {"f1", "exact_match"}
    context = "the cat sat on the mat . " * 12
    record = predict(question="where sat the cat", context=context).records[0]
    assert record["answer"] == context[record["start"] : record["end"]]
    assert json.loads(Path("runs/squad/predictions.json").read_text()).keys()
    model, info = AutoModelForQuestionAnswering.from_pretrained("runs/squad/model", output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    inputs = AutoTokenizer.from_pretrained("runs/squad/model")("where sat the cat", "the cat sat", return_tensors="pt")
    theirs = model.eval()(**inputs)
    ids, types = (inputs[name][0].numpy() for name in ("input_ids", "token_type_ids"))
    batch = pack(ids, types, np.array([len(ids)]), np.array([0]))
    ours = with_loss(load("span", "runs/squad/model"), "span").eval().outputs(batch)
    torch.testing.assert_close(ours["start"], theirs.start_logits, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(ours["end"], theirs.end_logits, atol=1e-5, rtol=1e-5)


def test_the_best_threshold_of_a_model_is_that_of_the_files_it_writes(at_home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "squad"
    folder.mkdir()
    for split in ("train", "dev"):
        shutil.copy(GOLDENS / "squad" / "data_v2.json", folder / f"{split}-v2.0.json")
    run = finetune(
        "squad_v2",
        data_dir=str(tmp_path),
        from_="runs/pretrain-tiny",
        out=str(tmp_path / "run"),
        epochs=1,
        max_seq_length=48,
        doc_stride=16,
        max_query_length=16,
    )
    scores = evaluate("squad_v2", model=run.run).metrics
    assert scores == run.metrics
    assert scores["best_f1"] >= scores["f1"]
    files = {"predictions": f"{run.run}/predictions.json", "na_probs": f"{run.run}/null_odds.json"}
    assert evaluate("squad_v2", data_dir=str(tmp_path), **files).metrics == scores


def test_the_order_of_a_models_labels_does_not_change_its_scores(
    at_home: Path, reviews: TrainingResult, tmp_path: Path
) -> None:
    ignore = shutil.ignore_patterns("checksums.sha256")  # of a configuration that is changed on purpose
    model = Path(shutil.copytree(reviews.model, tmp_path / "model", ignore=ignore))
    config = json.loads((model / "config.json").read_text())
    config |= {"id2label": {"0": "acceptable", "1": "unacceptable"}, "label2id": {"acceptable": 0, "unacceptable": 1}}
    (model / "config.json").write_text(json.dumps(config))
    (tmp_path / "glue" / "CoLA").mkdir(parents=True)
    texts = ["the cat, happily green garden tree", "the dog, slowly under mat birds"] * 4
    labels = [predict(text, model=str(model)).records[0]["label"] for text in texts]
    assert set(labels) == {"acceptable", "unacceptable"}
    rows = [f"x\t{int(label == 'acceptable')}\t\t{text}\n" for label, text in zip(labels, texts, strict=True)]
    (tmp_path / "glue" / "CoLA" / "dev.tsv").write_text("".join(rows))
    result = evaluate("glue/cola", model=str(model), data_dir=str(tmp_path))
    assert result.metrics == {"matthews_correlation": 100}


def test_a_mask_is_filled_by_the_pretrained_model(at_home: Path) -> None:
    result = predict("the [MASK] sat on the [MASK] .", top_k=3)
    assert result.model == "runs/pretrain-tiny/model"
    assert [fill["mask"] for fill in result.records[0]["fills"]] == [0, 0, 0, 1, 1, 1]


def test_regression_predicts_values(at_home: Path, tmp_path: Path) -> None:
    rows = [f"{'happily ' * n}the cat,{n / 2}" for n in range(1, 8)] * 8
    (tmp_path / "values.csv").write_text("text,score\n" + "\n".join(rows) + "\n")
    result = finetune(
        str(tmp_path / "values.csv"), out=str(tmp_path / "run"), epochs=10, batch_size=8, learning_rate=2e-3
    )
    assert result.metrics.keys() == {"spearmanr", "pearson"}
    assert isinstance(predict("happily the cat", model=str(tmp_path / "run")).records[0]["value"], float)


def test_scratch_takes_a_size_and_the_newest_vocabulary(at_home: Path, reviews: TrainingResult, tmp_path: Path) -> None:
    result = finetune("reviews.csv", from_="scratch", size="tiny", epochs=1, out=str(tmp_path / "run"))
    assert result.steps == int(108 / 32)
    with pytest.raises(UserError, match="needs a size"):
        finetune("reviews.csv", from_="scratch")


def test_a_fine_tuning_resumes_to_the_same_bits(
    at_home: Path, reviews: TrainingResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.training.test_loop import assert_same_bits, stop_after

    options = {"epochs": 2, "batch_size": 16, "learning_rate": 1e-3}
    whole = finetune("reviews.csv", **options, out=str(tmp_path / "whole"))
    with monkeypatch.context() as patch:
        stop_after(patch, 9)
        with pytest.raises(UserError, match="Stopped"):
            finetune("reviews.csv", **options, out=str(tmp_path / "cut"))
    resumed = finetune("reviews.csv", **options, out=str(tmp_path / "cut"), resume=True)
    assert_same_bits(whole.run, resumed.run)
    assert resumed.metrics == whole.metrics


def test_a_limit_draws_examples_by_the_seed(at_home: Path, reviews: TrainingResult) -> None:
    from bertcli.lifecycle.sources import find_source

    one, two, other = (find_source("reviews.csv", None, {}, seed=seed).read("train", limit=20) for seed in (1, 1, 2))
    assert one.examples.texts == two.examples.texts
    assert one.examples.texts != other.examples.texts
    assert len(one) == 20


def test_the_same_numbers_come_from_packed_and_single_inputs(at_home: Path, reviews: TrainingResult) -> None:
    texts = ["the cat", "the dog, slowly under mat", "happily green garden", "old birds sang in the old green tree ."]
    Path("several.txt").write_text("\n".join(texts), encoding="utf-8")
    together = [record["scores"]["good"] for record in predict(file="several.txt").records]
    alone = [predict(text).records[0]["scores"]["good"] for text in texts]
    assert np.allclose(together, alone, atol=1e-5)
