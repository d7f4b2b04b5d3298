"""A student is distilled at pre-training and at a task, and its run is one like any other."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
import yaml
from conftest import write_reviews
from transformers import AutoModelForMaskedLM, DistilBertForMaskedLM

from bertcli.data.pretraining.retokenized import TeacherTokens
from bertcli.data.text.tokenization import load_wordpiece
from bertcli.errors import Interrupted, UserError
from bertcli.lifecycle.build_vocab import build_vocab
from bertcli.lifecycle.distill import distill
from bertcli.lifecycle.distilling.cut_vocabulary import cut_vocabulary
from bertcli.lifecycle.evaluate import evaluate
from bertcli.lifecycle.finetune import finetune
from bertcli.lifecycle.predict import predict
from bertcli.lifecycle.report import report
from bertcli.training.run_folder import RunFolder
from tests.training.test_loop import assert_same_bits, logged, stop_after

PRETRAINED = {"teacher": "runs/pretrain-tiny", "batch_size": 8, "steps": 3, "seed": 3}


@pytest.fixture(scope="module")
def teacher(home: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A run that tells good reviews from bad ones, beside the file of them."""
    folder = tmp_path_factory.mktemp("taught")
    write_reviews(folder / "reviews.csv")
    options = {"epochs": 3, "batch_size": 16, "learning_rate": 2e-3, "max_seq_length": 24, "baseline": False}
    start = str(home / "runs" / "pretrain-tiny" / "model")
    return finetune(str(folder / "reviews.csv"), **options, from_=start, out=str(folder / "teacher")).run


def test_a_distilbert_opens_in_transformers_and_is_fine_tuned_by_default(at_home: Path, tmp_path: Path) -> None:
    run = distill(**PRETRAINED, layers=1, out=str(tmp_path / "runs" / "student"))
    _, info = DistilBertForMaskedLM.from_pretrained(run.model, output_loading_info=True)
    assert not {*info["missing_keys"], *info["unexpected_keys"]}
    (line,) = [line for line in RunFolder(Path(run.run)).metrics() if line["step"] == 1 and "loss" in line]
    assert {"soft_targets_loss", "masked_lm_loss", "hidden_loss"} <= line.keys()
    assert run.metrics["masked_lm_accuracy"] >= 0
    assert "Distilled from `runs/pretrain-tiny`: hidden, logits" in Path(run.run, "README.md").read_text()
    assert len(predict("the [MASK] sat", model=run.run).records[0]["fills"]) == 5
    assert report([run.run]).runs[0]["metrics"] == run.metrics
    repeated = RunFolder(Path(run.run)).config
    assert (repeated["temperature"], repeated["soft_weight"], repeated["task"]) == (2.0, 5.0, "pretraining")


@pytest.mark.slow
def test_a_resumed_distillation_has_the_bits_of_an_undisturbed_one(
    at_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {**PRETRAINED, "targets": ["hidden", "sentence-vectors"], "size": "tiny", "precision": "bfloat16"}
    options |= {"hidden_size": 64}  # of another width: projections are saved too
    whole = distill(**options, out=str(tmp_path / "whole"))
    with monkeypatch.context() as patch:
        stop_after(patch, 2)
        with pytest.raises(Interrupted):
            distill(**options, out=str(tmp_path / "part"))
    with pytest.raises(UserError, match="is not the teacher that the run"):
        distill(resume=True, out=str(tmp_path / "part"), teacher=whole.run)
    resumed = distill(resume=True, out=str(tmp_path / "part"), gradient_checkpointing=True)
    assert_same_bits(whole.run, resumed.run)
    assert logged(whole.run) == logged(resumed.run)


def test_a_cut_vocabulary_trains_on_its_own_texts_and_is_a_sentence_encoder(
    home: Path, workspace: Path, said: pytest.LogCaptureFixture
) -> None:
    corpus, start = home / "corpus.txt", str(home / "runs" / "pretrain-tiny")
    options = {"teacher": start, "vocab_from_text": [str(corpus)], "vocab_size": 50, "steps": 2, "batch_size": 8}
    run = distill(**options, size="mini", targets=["hidden", "sentence-vectors"], out="runs/student")
    assert "50 of " in said.text
    tokenizer = load_wordpiece(run.model)
    assert tokenizer.size == 50
    assert tokenizer.vocab.keys() < load_wordpiece(f"{start}/model").vocab.keys()
    assert run.losses[-1] < 20
    write_reviews(workspace / "reviews.csv", 40)
    saved = finetune("reviews.csv", epochs=1, baseline=False)  # the latest pre-trained run
    config = transformers.AutoConfig.from_pretrained(saved.model)
    assert config.architectures == ["MeanPooledBertForSequenceClassification"]
    with pytest.raises(UserError, match="leaves no room"):
        distill(**{**options, "vocab_size": 12}, size="mini", out="runs/other")


def test_the_teacher_reads_whole_texts_in_its_own_tokens(home: Path, tmp_path: Path) -> None:
    folder = home / "runs" / "pretrain-tiny" / "model"
    whole = load_wordpiece(folder)
    cut = cut_vocabulary(str(folder), [str(home / "corpus.txt")], 50, tmp_path / "vocab")
    texts = ["the old garden sang", "birds ran under a tree while the happily green house sat", "cat"]
    rows = [[cut.special("cls"), *ids, cut.special("sep")] for ids in cut.encode_ids(texts)]
    rows.sort(key=len, reverse=True)
    flat = np.array([each for row in rows for each in row])
    from bertcli.data.packing.batches import pack

    labels = {"masked_lm_positions": torch.tensor([2]), "masked_lm_ids": torch.tensor([int(flat[2])])}
    flat[2] = cut.special("mask")
    batch = pack(flat, None, np.array([len(row) for row in rows]), np.arange(3), labels)
    read = TeacherTokens(cut, whole).read(batch)
    wanted = sorted(([whole.special("cls"), *ids, whole.special("sep")] for ids in whole.encode_ids(texts)), key=len)[
        ::-1
    ]
    assert read["teacher_ids"].tolist() == [each for row in wanted for each in row]
    assert read["teacher_lengths"].tolist() == [len(row) for row in wanted]
    student, teacher = (each.tokens for each in (cut, whole))
    pairs = zip(read["student_places"].tolist(), read["teacher_places"].tolist(), strict=True)
    unmasked = flat.copy()
    unmasked[2] = int(labels["masked_lm_ids"])
    for own, theirs in pairs:
        assert teacher[read["teacher_ids"][theirs]].startswith(student[unmasked[own]])


def test_any_family_with_the_same_vocabulary_teaches(home: Path, workspace: Path) -> None:
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    tokenizer = load_wordpiece(home / "vocab")
    config = transformers.ElectraConfig(**sizes, embedding_size=8, vocab_size=tokenizer.size, pad_token_id=0)
    model = transformers.ElectraForMaskedLM(config)
    model.save_pretrained("electra")
    tokenizer.save(Path("electra"))
    data = str(home / "pretraining-data")
    run = distill(teacher="electra", data=data, steps=1, batch_size=4, out="same")
    assert transformers.AutoConfig.from_pretrained(run.model).num_hidden_layers == 1
    run = distill(
        teacher="electra", data=data, steps=1, batch_size=4, size="tiny", out="bert"
    )  # logits, and a projection
    assert AutoModelForMaskedLM.from_pretrained(run.model).config.model_type == "bert"
    run = distill(teacher="electra", data=data, steps=1, batch_size=4, size="tiny", family="deberta", out="deberta")
    assert AutoModelForMaskedLM.from_pretrained(run.model).config.model_type == "deberta"
    with pytest.raises(UserError, match="fills masks, which XLNet does not"):
        distill(teacher="electra", data=data, steps=1, size="tiny", family="xlnet", out="no")
    with pytest.raises(UserError, match="made of the layers of a BERT"):
        distill(teacher="electra", data=data, shape="distilbert", out="no")


def test_a_teacher_without_a_masked_lm_head_teaches_its_hidden_states(
    home: Path, workspace: Path, said: pytest.LogCaptureFixture
) -> None:
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    tokenizer = load_wordpiece(home / "vocab")
    config = transformers.ElectraConfig(**sizes, embedding_size=8, vocab_size=tokenizer.size, pad_token_id=0)
    transformers.ElectraForPreTraining(config).save_pretrained("discriminator")
    tokenizer.save(Path("discriminator"))
    data = str(home / "pretraining-data")
    run = distill(teacher="discriminator", data=data, steps=1, batch_size=4, size="tiny", out="student")
    assert (
        "`discriminator` has no masked-LM head, so no logits of tokens: its hidden states are learnt alone" in said.text
    )
    (line,) = [line for line in RunFolder(Path("student")).metrics() if line["step"] == 1 and "loss" in line]
    assert {"masked_lm_loss", "hidden_loss"} <= line.keys()
    assert "soft_targets_loss" not in line
    assert AutoModelForMaskedLM.from_pretrained(run.model).config.model_type == "bert"


def test_a_teacher_that_reads_from_left_to_right_teaches_next_tokens(home: Path, workspace: Path) -> None:
    start, data = home / "runs" / "pretrain-tiny" / "model", str(home / "pretraining-data")
    config = transformers.BertConfig.from_pretrained(start, is_decoder=True)
    transformers.BertLMHeadModel(config).save_pretrained("causal")
    load_wordpiece(start).save(Path("causal"))
    run = distill(teacher="causal", data=data, steps=2, batch_size=4, out="student")
    student = transformers.AutoConfig.from_pretrained(run.model)
    assert (student.architectures, student.is_decoder) == (["BertLMHeadModel"], True)
    assert {"next_token_accuracy", "next_token_loss"} <= run.metrics.keys()


def test_what_does_not_fit_is_refused(home: Path, workspace: Path) -> None:
    data, start = str(home / "pretraining-data"), str(home / "runs" / "pretrain-tiny")
    Path("other.txt").write_text("zebras quarrel\n" * 20)
    build_vocab("other.txt", vocab_size=40, out="other")
    transformers.BertModel.from_pretrained(f"{start}/model").save_pretrained("headless")
    causal = transformers.BertConfig.from_pretrained(f"{start}/model", is_decoder=True)
    transformers.BertLMHeadModel(causal).save_pretrained("causal")
    shape = {"d_model": 16, "n_layer": 1, "n_head": 2, "d_inner": 32, "vocab_size": causal.vocab_size}
    transformers.XLNetLMHeadModel(transformers.XLNetConfig(**shape)).save_pretrained("xlnet")
    for name in ("headless", "causal", "xlnet"):
        load_wordpiece(f"{start}/model").save(Path(name))
    transformers.BertForMaskedLM(
        transformers.BertConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, vocab_size=40)
    ).save_pretrained("other")
    wrong: list[tuple[dict[str, Any], str]] = [
        ({}, "Which teacher"),
        ({"teacher": start, "epochs": 2}, "--epochs is for distillation at a task"),
        ({"task": "glue/rte", "teacher": start, "steps": 2}, "--steps is for distillation at pre-training"),
        ({"teacher": start, "targets": ["states"]}, "Unknown value for --targets: `states`"),
        ({"teacher": start, "layers": 1, "size": "tiny"}, "each say what the student starts from"),
        ({"teacher": start, "layers": 9}, "more than the 2 layers"),
        ({"teacher": "other"}, "tokens that the teacher does not have"),
        ({"teacher": "headless", "targets": ["logits", "hidden"]}, "no masked-LM head"),
        ({"teacher": "xlnet"}, "is an XLNet, which predicts tokens in an order of its own"),
        ({"teacher": "causal", "shape": "distilbert"}, "the teacher is a model that reads from left to right"),
        ({"teacher": "causal", "mask_smoothing": 0.7}, "--mask-smoothing has no effect"),
        ({"teacher": start, "hidden_size": 32}, "--hidden-size is for new weights only"),
        ({"teacher": start, "size": "tiny", "heads": 3}, "cannot be divided among 3 heads"),
        ({"teacher": start, "from_": "scratch"}, "--from scratch needs a size"),
        (
            {"teacher": start, **dict.fromkeys(("soft_weight", "hidden_weight", "masked_lm_weight"), 0)},
            "has the weight 0",
        ),
        ({"teacher": start, "vocab_size": 50}, "--vocab-size needs --vocab-from-text"),
    ]
    for options, what in wrong:
        with pytest.raises(UserError, match=what):
            distill(**{"data": data, **options} if "task" not in options else options)
    assert not Path("runs").exists()


def test_at_a_task_a_student_of_the_teachers_layers_learns_and_resumes_to_the_bit(
    teacher: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = str(Path(teacher).parent / "reviews.csv")
    (tmp_path / "more.txt").write_text("the cat, happily green garden\nthe dog, slowly under mat\n" * 12)
    options: dict[str, Any] = {"teacher": teacher, "targets": ["logits", "hidden", "sentence-vectors"], "epochs": 3}
    options |= {"unlabelled": [str(tmp_path / "more.txt")], "batch_size": 16, "learning_rate": 2e-3, "baseline": False}
    run = distill(data, **options, out=str(tmp_path / "whole"))
    assert run.metrics["accuracy"] > 60
    assert transformers.AutoConfig.from_pretrained(run.model).num_hidden_layers == 1
    assert run.steps == 3 * (108 + 24) // 16  # labelled and unlabelled
    saved = yaml.safe_load(Path(run.run, "config.yaml").read_text())
    assert {"train", "dev", "unlabelled"} == saved["data_digests"].keys()
    with monkeypatch.context() as patch:
        stop_after(patch, 5)
        with pytest.raises(Interrupted):
            distill(data, **options, out=str(tmp_path / "part"))
    resumed = distill(resume=True, out=str(tmp_path / "part"))
    assert_same_bits(run.run, resumed.run)
    assert logged(run.run) == logged(resumed.run)
    assert evaluate(data, model=[run.run]).metrics["accuracy"] == run.metrics["accuracy"]
    assert "Distilled; teacher: " in Path(run.run, "README.md").read_text()
    assert predict("the cat, happily green garden", model=run.run).records[0]["label"] in ("good", "bad")
    questions = tmp_path / "questions.jsonl"
    questions.write_text('{"question": "Who?", "context": "Ada did."}\n')
    with pytest.raises(UserError, match=r"questions\.jsonl"):
        distill(data, teacher=teacher, unlabelled=[str(questions)])
    with pytest.raises(UserError) as missing:
        distill(data, teacher=teacher, unlabelled=["none.txt"])
    assert "--file" not in missing.value.hint


def test_by_logits_a_student_with_another_vocabulary_learns(teacher: str, tmp_path: Path) -> None:
    data = str(Path(teacher).parent / "reviews.csv")
    (tmp_path / "reviews.txt").write_bytes(Path(data).read_bytes())
    build_vocab(str(tmp_path / "reviews.txt"), vocab_size=60, out=str(tmp_path / "vocab"))
    options: dict[str, Any] = {"teacher": teacher, "tokenizer": str(tmp_path / "vocab"), "size": "tiny", "epochs": 6}
    run = distill(data, **options, label_weight=0, batch_size=16, learning_rate=2e-3, out=str(tmp_path / "run"))
    assert run.metrics["accuracy"] > 60  # from the teacher's answers alone
    with pytest.raises(UserError, match="another tokenizer than the teacher"):
        distill(data, **options, targets=["hidden"], out=str(tmp_path / "hidden"))


KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "regress": ("text,label\n" + "".join(f"the cat {'sat ' * (row % 4)},{row % 4}.5\n" for row in range(40)), {}),
    "multilabel": (
        "text,label\n"
        + "".join(
            f"{'cat' * (row % 2)} {'dog' * (row % 3 > 0)} ran,{('c|d', 'd|e', 'c')[row % 3]}\n" for row in range(40)
        ),
        {"kind": "multilabel"},
    ),
    "tag": ("the O\ncat B-PER\nsat O\n\nthe O\ndog B-MISC\nran O\n\n" * 10, {"bilstm": True}),
    "span": ("", {}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_taught(kind: str, at_home: Path, tmp_path: Path) -> None:
    text, options = KINDS[kind]
    path = tmp_path / {"tag": "tags.conll", "span": "squad.json"}.get(kind, "rows.csv")
    path.write_text(text or _questions())
    shared = {"epochs": 1, "batch_size": 8, "max_seq_length": 32, "baseline": False, **options}
    shared |= {"max_query_length": 8, "doc_stride": 8} if kind == "span" else {}
    taught = finetune(str(path), from_="runs/pretrain-tiny/model", **shared, out=str(tmp_path / "teacher"))
    run = distill(str(path), teacher=taught.run, layers=1, **shared, out=str(tmp_path / "student"))
    assert run.metrics.keys() == taught.metrics.keys()
    lines = [line for line in RunFolder(Path(run.run)).metrics() if "loss" in line]
    assert all(np.isfinite(line["soft_targets_loss"]) and line["soft_targets_loss"] >= 0 for line in lines)
    if kind == "span":
        shared |= {
            "size": "tiny",
            "tokenizer": build_vocab(str(at_home / "corpus.txt"), vocab_size=70, out=str(tmp_path / "vocab")).out,
        }
        with pytest.raises(UserError, match="another tokenizer than the teacher"):
            distill(str(path), teacher=taught.run, **shared, out=str(tmp_path / "no"))


def _questions() -> str:
    context = "the cat sat on the old mat while birds sang in the green garden near the house"
    asked = [
        {"id": str(row), "question": "the cat ran", "answers": [{"text": "old mat", "answer_start": 19}]}
        for row in range(20)
    ]
    paragraphs = [{"context": context, "qas": [each]} for each in asked]
    return json.dumps({"version": "1.1", "data": [{"title": "", "paragraphs": [each]} for each in paragraphs]})


def test_a_student_that_is_its_teacher_has_no_soft_loss(teacher: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"teacher": teacher, "layers": 2, "targets": ["logits", "hidden"], "label_weight": 0}
    options |= {"epochs": 1, "precision": "float32", "learning_rate": 0, "baseline": False, "max_seq_length": 24}
    run = distill(str(Path(teacher).parent / "reviews.csv"), **options, out=str(tmp_path / "run"))
    first = next(line for line in RunFolder(Path(run.run)).metrics() if "loss" in line)
    assert first["loss"] < 0.05  # dropout alone
