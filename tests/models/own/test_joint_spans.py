"""ELECTRA's head for answers gives the losses, gradients and beams of the authors' code, and answers questions."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import GOLDENS
from transformers import AutoModel, ElectraConfig

from bertcli.config.use import PredictConfig
from bertcli.data.packing.batches import PackedBatch, pack
from bertcli.errors import UserError
from bertcli.lifecycle.finetune import finetune
from bertcli.lifecycle.predict import predict
from bertcli.models.formats.tensorflow_names import to_parameters
from bertcli.models.loading import with_trained_padding
from bertcli.models.own import joint_spans
from bertcli.models.own.joint_spans import ElectraForJointQuestionAnswering, joint_span_losses
from bertcli.models.packed import PACKED

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


def batch_of(arrays: dict[str, np.ndarray], with_labels: bool) -> PackedBatch:
    real = arrays["in/input_mask"].astype(bool)
    columns = (arrays[f"in/{name}"][real].astype(np.int64) for name in ("input_ids", "segment_ids"))
    names = ("start_positions", "end_positions", "is_impossible") if with_labels else ()
    labels = {name: torch.from_numpy(arrays[f"in/squad_{name}"]).long() for name in names}
    if with_labels:
        labels["is_impossible"] = labels["is_impossible"].float()
    return pack(*columns, real.sum(1), np.arange(len(real)), labels)


def test_losses_and_gradients_are_those_of_the_original(
    arrays: dict[str, np.ndarray], model: ElectraForJointQuestionAnswering
) -> None:
    batch, real = batch_of(arrays, True), arrays["in/input_mask"].astype(bool)
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
    monkeypatch.setattr(joint_spans, "BEAM", 4)
    with torch.no_grad():
        found = model(batch_of(arrays, False))
    np.testing.assert_allclose(found["no_answer"], arrays["out/predict_answerable_logit"], atol=1e-5)
    starts, ends = found["start"].topk(4), found["end"].topk(4)
    likely = arrays["out/predict_start_top_log_probs"] > -100  # the others are forbidden places, in any order
    np.testing.assert_array_equal(starts.indices[likely], arrays["out/predict_start_top_index"][likely])
    for side, given in (("start", starts.values), ("end", ends.values)):
        wanted = arrays[f"out/predict_{side}_top_log_probs"]
        kept = (wanted > -100) & (likely if side == "start" else likely[:, :, None])
        np.testing.assert_allclose(given.numpy()[kept], wanted[kept], atol=1e-5)


def test_a_model_with_it_is_finetuned_and_answers(workspace: Path) -> None:
    options = {"tokenizer": str(GOLDENS / "vocab.txt"), "size": "tiny", "epochs": 1, "max_seq_length": 128}
    data, start = str(GOLDENS / "squad" / "data_v2.json"), {"from_": "scratch", "family": "electra"}
    run = finetune(data, **start, **options, span_head="joint")
    assert 0 <= run.metrics["f1"] <= 100
    model, info = AutoModel.from_pretrained(run.model, output_loading_info=True)
    assert not info["missing_keys"]
    assert type(model).__name__ == "ElectraModel"
    (record,) = predict(PredictConfig(question="Who wrote it?", context="It was written by Ada.")).records
    assert record["answer"] in "It was written by Ada."
    with pytest.raises(UserError, match="is the head of ELECTRA"):
        finetune(data, **{**start, "family": "bert"}, **options, span_head="joint")
