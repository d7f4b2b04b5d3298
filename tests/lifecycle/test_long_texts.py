"""`--long-texts windows`: the average over all windows is trained, scored and predicted; the model stays a plain one."""

import csv
import logging
import random
from pathlib import Path

import pytest
import torch
from conftest import WORDS
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from bertcli.data.packing.text_windows import encode_in_windows
from bertcli.data.packing.windows import WindowRules
from bertcli.data.text.tokenization import load_tokenizer
from bertcli.errors import Interrupted, UserError
from bertcli.kinds import KINDS
from bertcli.kinds.text import TextKind
from bertcli.lifecycle.evaluate import evaluate
from bertcli.lifecycle.finetune import finetune
from bertcli.lifecycle.predict import predict
from bertcli.training.loop import Training
from bertcli.training.result import TrainingResult
from bertcli.training.run_folder import RunFolder
from tests.lifecycle.test_finetune import stop_at_call
from tests.training.test_loop import assert_same_bits, weights

LONG = {"max_seq_length": 16, "long_texts": "windows", "batch_size": 8, "epochs": 1, "learning_rate": 1e-3}
LONG |= {"precision": "float32", "baseline": False}


def long_texts(count: int = 60) -> list[tuple[str, str]]:
    """Texts of which the last word alone tells the label."""
    draw = random.Random(0)
    labels = [draw.choice(["good", "bad"]) for _ in range(count)]
    texts = [" ".join(draw.choices(WORDS, k=draw.randint(5, 60))) for _ in range(count)]
    return [
        (f"{text} {'happily' if label == 'good' else 'slowly'}", label)
        for text, label in zip(texts, labels, strict=True)
    ]


def write(path: Path, columns: list[str], rows: list[tuple]) -> str:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([columns, *rows])
    return str(path)


@pytest.fixture(scope="module")
def reviews(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write(tmp_path_factory.mktemp("long") / "reviews.csv", ["text", "label"], long_texts())


@pytest.fixture(scope="module")
def run(home: Path, reviews: str) -> TrainingResult:
    patch = pytest.MonkeyPatch()
    patch.chdir(home)
    result = finetune(reviews, from_="runs/pretrain-tiny", out=str(Path(reviews).parent / "run"), **LONG)
    patch.undo()
    return result


def test_the_run_keeps_the_choice_and_its_scores_come_back(run: TrainingResult, reviews: str, at_home: Path) -> None:
    saved = RunFolder(Path(run.run)).config
    assert (saved["long_texts"], saved["doc_stride"]) == ("windows", 16)
    assert "read in windows" in (Path(run.run) / "README.md").read_text()
    assert evaluate(reviews, model=[run.run]).metrics == pytest.approx(run.metrics)


def test_a_stride_without_windows_is_said_to_have_no_effect_once(
    reviews: str, at_home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="bertcli")
    said = "--doc-stride has no effect without --long-texts windows"
    for options, count in (({"doc_stride": 8}, 1), ({"doc_stride": 8, "long_texts": "windows"}, 0), ({}, 0)):
        caplog.clear()
        finetune(reviews, **{**LONG, "long_texts": "cut", **options}, from_="runs/pretrain-tiny", dry_run=True)
        assert caplog.messages.count(said) == count


def test_a_stride_longer_than_a_window_is_said_to_leave_no_overlap(
    reviews: str, at_home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="bertcli")
    for stride, count in ((LONG["max_seq_length"], 0), (200, 1)):
        caplog.clear()
        finetune(reviews, **{**LONG, "doc_stride": stride}, from_="runs/pretrain-tiny", dry_run=True)
        assert caplog.messages.count("--doc-stride 200 is longer than a window, so windows do not overlap") == count


def test_an_option_of_another_kind_is_refused(reviews: str, at_home: Path) -> None:
    with pytest.raises(UserError, match="--max-answer-length is for answers as spans"):
        finetune(reviews, max_answer_length=5, from_="runs/pretrain-tiny", dry_run=True)


def test_predictions_are_the_mean_of_the_plain_models_logits_by_tokens(run: TrainingResult, at_home: Path) -> None:
    text, _ = max(long_texts(), key=lambda row: len(row[0]))
    tokenizer = AutoTokenizer.from_pretrained(run.model)
    model = AutoModelForSequenceClassification.from_pretrained(run.model).eval()
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    windows = [ids[start : start + 14] for start in range(0, len(ids), 14)]
    assert len(windows) > 3
    with torch.inference_mode():
        logits = [
            model(torch.tensor([[tokenizer.cls_token_id, *w, tokenizer.sep_token_id]])).logits[0] for w in windows
        ]
    mean = sum(len(w) * one for w, one in zip(windows, logits, strict=True)) / len(ids)
    found = predict(text, model=run.run, precision="float32").records[0]["scores"]
    assert [found[name] for name in model.config.id2label.values()] == pytest.approx(mean.softmax(0).tolist(), abs=1e-5)


def test_the_answer_does_not_depend_on_what_else_is_predicted(
    run: TrainingResult, reviews: str, at_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = predict(file=reviews, model=run.run).records
    monkeypatch.setattr("bertcli.training.device.inference_tokens", lambda: 1)
    apart = predict(file=reviews, model=run.run).records
    for one, other in zip(together, apart, strict=True):
        assert one["scores"] == pytest.approx(other["scores"], abs=1e-5)


def test_training_does_not_depend_on_the_micro_batches_though_dropout_is_on(
    run: TrainingResult, reviews: str, at_home: Path, tmp_path: Path
) -> None:
    other = finetune(reviews, from_="runs/pretrain-tiny", out=str(tmp_path / "run"), micro_batch_tokens=1, **LONG)
    assert other.losses == pytest.approx(run.losses, abs=1e-4)
    mine, others = weights(run.run), weights(other.run)
    for name in mine:
        torch.testing.assert_close(mine[name], others[name], atol=1e-3, rtol=0)


@pytest.mark.parametrize("kind", ["classify", "multilabel", "regress"])
def test_the_gradient_is_that_of_the_loss_of_the_averaged_logits(kind: str, run: TrainingResult, reviews: str) -> None:
    own = KINDS[kind]
    assert isinstance(own, TextKind)
    labels = {"classify": torch.tensor([1, 0]), "regress": torch.tensor([0.5, 2.0])}.get(kind, torch.eye(2))
    config = {
        "num_labels": labels.shape[-1] if labels.ndim == 2 else 2 - (kind == "regress"),
        "problem_type": own.problem_type,
    }
    model = own.load_model(run.model, config).eval()
    texts = own.input_examples([{"text": text} for text, _ in sorted(long_texts())[:2]], load_tokenizer(run.model))
    features = encode_in_windows(texts, load_tokenizer(run.model), WindowRules(16, 10, 0, True), labels.numpy())
    batch = features.pack(torch.arange(2).numpy(), 0)
    own.with_loss(model)(batch)["loss"].backward()
    found = {name: weight.grad.clone() for name, weight in model.named_parameters() if weight.grad is not None}
    model.zero_grad()
    plain = AutoModelForSequenceClassification.from_pretrained(run.model, **config, ignore_mismatched_sizes=True).eval()
    plain.load_state_dict(model.state_dict())
    means = []
    for text in range(2):
        rows = torch.arange(*features.first[text : text + 2]).numpy()
        inputs = [torch.from_numpy(features.input_ids.take(rows[n : n + 1])[0])[None] for n in range(len(rows))]
        logits = torch.cat([plain(ids).logits for ids in inputs])
        shares = torch.tensor([ids.shape[1] - 2.0 for ids in inputs])
        means.append((logits * shares[:, None]).sum(0) / shares.sum())
    own.losses({"logits": torch.stack(means)}, batch)["loss"].backward()
    for name, weight in plain.named_parameters():
        if name in found:
            torch.testing.assert_close(found[name], weight.grad, atol=1e-4, rtol=1e-3)


def test_values_sets_of_labels_and_pairs_are_learnt_in_windows(at_home: Path, tmp_path: Path) -> None:
    rows = long_texts(16)
    values = write(tmp_path / "values.csv", ["text", "score"], [(text, len(text) / 7) for text, _ in rows])
    several = write(tmp_path / "several.csv", ["text", "label"], [(text, f"a|{label}") for text, label in rows])
    pairs = write(tmp_path / "pairs.csv", ["text", "text_pair", "label"], [("the cat sat", *row) for row in rows])
    for file, kind in ((values, "regress"), (several, "multilabel"), (pairs, "classify")):
        made = finetune(file, from_="runs/pretrain-tiny", kind=kind, out=str(tmp_path / kind), **LONG)
        again = evaluate(file, model=[made.run]).metrics
        assert again == pytest.approx(made.metrics, abs=1e-3)


def test_a_run_is_resumed_in_windows_without_being_told(
    run: TrainingResult, reviews: str, at_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = str(tmp_path / "run")
    with monkeypatch.context() as patch:
        stop_at_call(patch, 2)
        with pytest.raises(Interrupted):
            finetune(reviews, from_="runs/pretrain-tiny", out=out, **LONG)
    with pytest.raises(UserError, match="started with windows"):
        finetune(resume=True, out=out, task="", long_texts="cut")
    finetune(resume=True, out=out, task="")
    assert_same_bits(out, run.run)


def test_windows_are_for_texts_with_labels_or_values(swag_like: str, at_home: Path) -> None:
    with pytest.raises(UserError, match="texts with labels or values"):
        finetune(swag_like, long_texts="windows", from_="runs/pretrain-tiny")


@pytest.fixture
def swag_like(tmp_path: Path) -> str:
    return write(tmp_path / "ends.csv", ["text", "ending0", "ending1", "label"], [("the cat", "sat", "ran", 0)] * 12)


def test_cutting_says_what_share_is_cut_and_what_windows_would_cost(
    reviews: str, at_home: Path, said: pytest.LogCaptureFixture
) -> None:
    cut = {**LONG, "long_texts": "cut", "dry_run": True}
    finetune(reviews, from_="runs/pretrain-tiny", **cut)
    assert "% of the train tokens are cut: --long-texts windows reads them too, and takes about" in said.text
    said.clear()
    finetune(reviews, from_="runs/pretrain-tiny", **{**cut, "long_texts": "windows"})
    assert "tokens are cut" not in said.text


def test_a_text_that_memory_does_not_hold_is_not_halved_without_end(
    reviews: str, at_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> dict[str, float]:
        raise torch.OutOfMemoryError("out of memory")

    monkeypatch.setattr(Training, "_step", full)
    with pytest.raises(Exception, match="memory"):
        finetune(reviews, from_="runs/pretrain-tiny", auto_batch_size=True, out=str(tmp_path / "run"), **LONG)


def test_a_list_of_texts_or_rows_is_predicted_in_python(run: TrainingResult, at_home: Path) -> None:
    texts = [text for text, _ in long_texts(3)]
    found = predict(texts, model=run.run).rows
    assert [row["prediction"] for row in found] == [
        predict(text, model=run.run).rows[0]["prediction"] for text in texts
    ]
    assert predict([{"text": texts[0]}], model=run.run).rows[0]["score"] == pytest.approx(found[0]["score"], abs=1e-5)
    with pytest.raises(UserError, match="different keys"):
        predict([{"text": "a"}, {"text": "a", "text_pair": "b"}], model=run.run)
    with pytest.raises(UserError, match="no input"):
        predict([], model=run.run)
