"""The authors' heads for answers give the losses, gradients and beams of their code, and answer questions."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import GOLDENS
from transformers import AlbertConfig, AutoModel, ElectraConfig, XLNetForQuestionAnswering

from bertcli.config.use import PredictConfig
from bertcli.data.packing.batches import PackedBatch, pack
from bertcli.errors import UserError
from bertcli.lifecycle.build_vocab import build_vocab
from bertcli.lifecycle.finetune import finetune
from bertcli.lifecycle.predict import predict
from bertcli.models.formats.tensorflow_names import to_parameters
from bertcli.models.loading import with_trained_padding
from bertcli.models.own.joint_spans import (
    AlbertForJointQuestionAnswering,
    ElectraForJointQuestionAnswering,
    joint_span_losses,
)
from bertcli.models.packed import PACKED
from tests.models.test_original_albert import parameters

FOLDER = GOLDENS / "electra" / "finetune"
NAMES = {
    "dense": "qa_start",
    "qa_hidden": "qa_hidden",
    "dense_1": "qa_end",
    "dense_2": "qa_none_hidden",
    "dense_3": "qa_none",
}


@pytest.fixture(scope="module")
def arrays() -> dict[str, np.ndarray]:
    return dict(np.load(FOLDER / "squad.npz"))


def weights(arrays: dict[str, np.ndarray], prefix: str) -> dict[str, torch.Tensor]:
    chosen = {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}
    found = {}
    for name, value in to_parameters(chosen).items():
        part = name.split(".")[2] if name.startswith("task_specific") else ""
        named = name.replace(f"task_specific.squad.{part}", NAMES[part]) if part else name
        found[named] = torch.from_numpy(np.array(value))
    return found


@pytest.fixture(scope="module")
def model(arrays: dict[str, np.ndarray]) -> ElectraForJointQuestionAnswering:
    saved = json.loads((FOLDER / "squad.json").read_text())
    more = {"embedding_size": saved["embedding_size"], "layer_norm_eps": 1e-12, "attn_implementation": PACKED}
    made = with_trained_padding(ElectraForJointQuestionAnswering(ElectraConfig(**saved["bert_config"], **more))).eval()
    assert not made.load_state_dict(weights(arrays, "w/"), strict=False).unexpected_keys
    return made


def batch_of(arrays: dict[str, np.ndarray], *labels: str) -> PackedBatch:
    """The batch of a golden; labels are named as there, ELECTRA's with the task before them."""
    real = arrays["in/input_mask"].astype(bool)
    columns = (arrays[f"in/{name}"][real].astype(np.int64) for name in ("input_ids", "segment_ids"))
    given = {name.removeprefix("squad_"): torch.from_numpy(arrays[f"in/{name}"]).long() for name in labels}
    if "is_impossible" in given:
        given["is_impossible"] = given["is_impossible"].float()
    return pack(*columns, real.sum(1), np.arange(len(real)), given)


def check_beams(found: dict[str, torch.Tensor], arrays: dict[str, np.ndarray], followed: int, starts: int) -> None:
    """Check the best starts and the best ends of each against a golden's, but for forbidden places, which have any order."""
    is_start = arrays["out/predict_start_top_log_probs"] > -100
    assert is_start.sum() == starts
    for side, real in (("start", is_start), ("end", np.repeat(is_start, followed, 1))):
        best = found[side].topk(followed)
        wanted, where = (
            arrays[f"out/predict_{side}_top_{what}"].reshape(real.shape) for what in ("log_probs", "index")
        )
        kept = real & (wanted > -100)
        assert kept.sum() >= starts
        np.testing.assert_allclose(best.values.numpy().reshape(real.shape)[kept], wanted[kept], atol=1e-5, rtol=1e-5)
        np.testing.assert_array_equal(best.indices.numpy().reshape(real.shape)[kept], where[kept])


def test_losses_and_gradients_are_those_of_the_original(
    arrays: dict[str, np.ndarray], model: ElectraForJointQuestionAnswering
) -> None:
    batch = batch_of(arrays, "squad_start_positions", "squad_end_positions", "squad_is_impossible")
    real = arrays["in/input_mask"].astype(bool)
    outputs = model(batch)
    for name, found in (("start_logits", outputs["start"]), ("end_logits", outputs["end"][:, 0])):
        np.testing.assert_allclose(found.detach().numpy()[real], arrays[f"out/{name}"][real], atol=1e-4, rtol=1e-5)
    np.testing.assert_allclose(outputs["no_answer"].detach(), arrays["out/answerable_logit"], atol=1e-5, rtol=1e-5)
    loss = joint_span_losses(outputs, batch)
    assert loss.item() == pytest.approx(float(arrays["out/total_loss"]), rel=1e-5)
    model.zero_grad()
    loss.backward()
    norm = torch.stack([weight.grad.norm() for weight in model.parameters()]).norm().item()
    assert norm == pytest.approx(float(arrays["out/grad_global_norm"]), rel=1e-5)
    for name, wanted in weights(arrays, "grad/").items():
        torch.testing.assert_close(model.get_parameter(name).grad, wanted, atol=1e-5, rtol=1e-4)


def test_beams_are_those_of_the_original(
    arrays: dict[str, np.ndarray], model: ElectraForJointQuestionAnswering, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ElectraForJointQuestionAnswering, "beam", 4)
    with torch.no_grad():
        found = model(batch_of(arrays))
    np.testing.assert_allclose(found["no_answer"], arrays["out/predict_answerable_logit"], atol=1e-5)
    check_beams(found, arrays, 4, starts=10)


@pytest.fixture(scope="module")
def albert_values() -> dict[str, np.ndarray]:
    return dict(np.load(GOLDENS / "albert" / "squad_v2.npz"))


@pytest.fixture(scope="module")
def albert(albert_values: dict[str, np.ndarray]) -> AlbertForJointQuestionAnswering:
    saved = json.loads((GOLDENS / "albert" / "squad_v2.json").read_text())["albert_config"]
    config = AlbertConfig(**saved | {"hidden_act": "gelu_new"}, attn_implementation=PACKED)
    made = with_trained_padding(AlbertForJointQuestionAnswering(config)).eval()
    missing, unexpected = made.load_state_dict(parameters(albert_values, "w/"), strict=False)
    assert not missing
    assert all("pooler" in name for name in unexpected)  # which the original has, and this head does not read
    return made


def test_alberts_losses_and_gradients_are_those_of_the_original(
    albert_values: dict[str, np.ndarray], albert: AlbertForJointQuestionAnswering
) -> None:
    batch = batch_of(albert_values, "start_positions", "end_positions")
    real = albert_values["in/input_mask"].astype(bool)
    outputs = albert(batch)
    found = {"start": outputs["start"].log_softmax(1), "end": outputs["end"][:, 0].log_softmax(1)}
    for name, given in found.items():
        wanted = albert_values[f"out/train_{name}_log_probs"][real]
        np.testing.assert_allclose(given.detach().numpy()[real], wanted, atol=1e-5, rtol=1e-5)
    np.testing.assert_allclose(outputs["no_answer"].detach(), albert_values["out/train_cls_logits"], atol=1e-5)
    assert outputs["is_impossible"].tolist() == albert_values["in/is_impossible"].tolist()
    loss = joint_span_losses(outputs, batch) / len(real)
    assert loss.item() == pytest.approx(float(albert_values["out/total_loss"]), rel=1e-5)
    albert.zero_grad()
    loss.backward()
    for name, wanted in parameters(albert_values, "grad/").items():
        torch.testing.assert_close(albert.get_parameter(name).grad, wanted, atol=1e-5, rtol=1e-4)


def test_alberts_beams_are_those_of_the_original(
    albert_values: dict[str, np.ndarray], albert: AlbertForJointQuestionAnswering, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AlbertForJointQuestionAnswering, "beam", 3)
    with torch.no_grad():
        found = albert(batch_of(albert_values))
    np.testing.assert_allclose(found["no_answer"], albert_values["out/predict_cls_logits"], atol=1e-5)
    check_beams(found, albert_values, 3, starts=11)


@pytest.mark.parametrize("family", ["electra", "albert", "xlnet"])
def test_a_model_with_it_is_finetuned_and_answers(workspace: Path, family: str) -> None:
    data, options = str(GOLDENS / "squad" / "data_v2.json"), {"size": "tiny", "epochs": 1, "max_seq_length": 128}
    options["tokenizer"] = str(GOLDENS / "vocab.txt")
    if family == "xlnet":
        options["tokenizer"] = build_vocab([str(GOLDENS / "xlnet" / "text.txt")], family=family, vocab_size=150).out
    run = finetune(data, from_="scratch", family=family, span_head="joint", **options)
    assert 0 <= run.metrics["f1"] <= 100
    opened = XLNetForQuestionAnswering if family == "xlnet" else AutoModel
    model, info = opened.from_pretrained(run.model, output_loading_info=True)
    assert info["missing_keys"] == ({"pooler.weight", "pooler.bias"} if family == "albert" else set())
    names = {"electra": "ElectraModel", "albert": "AlbertModel", "xlnet": "XLNetForQuestionAnswering"}
    assert type(model).__name__ == names[family]
    (record,) = predict(PredictConfig(question="Who wrote it?", context="It was written by Ada.")).records
    assert record["answer"] in "It was written by Ada."


def test_other_families_have_none(workspace: Path) -> None:
    options = {"tokenizer": str(GOLDENS / "vocab.txt"), "size": "tiny", "family": "bert", "from_": "scratch"}
    with pytest.raises(UserError, match="is a head of ELECTRA, ALBERT and XLNet"):
        finetune(str(GOLDENS / "squad" / "data_v2.json"), **options, span_head="joint")
