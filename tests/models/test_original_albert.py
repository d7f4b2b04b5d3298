"""The model is ALBERT's: outputs, losses, gradients and optimizer steps of TensorFlow."""

import json
import re

import numpy as np
import pytest
import torch
from conftest import GOLDENS
from torch import Tensor, nn
from transformers import AlbertConfig, AlbertForPreTraining

from bertcli.data.packing.batches import PackedBatch, pack
from bertcli.families.albert import ALBERT as FAMILY
from bertcli.models.encoder import encode
from bertcli.models.loading import with_trained_padding
from bertcli.models.packed import PACKED
from bertcli.models.working_copy import WorkingCopy
from bertcli.objectives import MLM_AND_SOP
from bertcli.training.optimizer import make_optimizer
from bertcli.training.plan import learning_rate_at

ALBERT = GOLDENS / "albert"
RUNS = {"pretraining_lamb": "lamb", "pretraining_adamw_groups2_inner2": "bert"}
NAMES = [
    (
        r"^bert/encoder/transformer/group_(\d+)/inner_group_(\d+)",
        r"albert/encoder/albert_layer_groups/\1/albert_layers/\2",
    ),
    (r"/attention_1/self/", "/attention/"),
    (r"/attention_1/output/dense/", "/attention/dense/"),
    (r"/ffn_1/intermediate/dense/", "/ffn/"),
    (r"/ffn_1/intermediate/output/dense/", "/ffn_output/"),
    (r"(albert_layers/\d+)/LayerNorm/", r"\1/attention/LayerNorm/"),
    (r"/LayerNorm_1/", "/full_layer_layer_norm/"),
    (r"^bert/pooler/dense/", "albert/pooler/"),
    (r"^bert/", "albert/"),
    (r"^cls/predictions/(transform/)?(output_)?", "predictions/"),
    (r"^cls/seq_relationship/output_", "sop_classifier/classifier/"),
    (r"/weights$|/kernel$|/gamma$", "/weight"),
    (r"/beta$", "/bias"),
    (r"_embeddings$", "_embeddings/weight"),
]


def parameters(values: dict[str, np.ndarray], begin: str) -> dict[str, Tensor]:
    """The original's variables by the names of transformers."""
    found = {}
    for key, value in values.items():
        if key.startswith(begin):
            name = key.removeprefix(begin)
            for theirs, ours in NAMES:
                name = re.sub(theirs, ours, name)
            found[name.replace("/", ".")] = torch.tensor(value.T if key.endswith("/kernel") else value)
    return found


def model_of(name: str, values: dict[str, np.ndarray]) -> AlbertForPreTraining:
    config = json.loads((ALBERT / f"{name}.json").read_text())["albert_config"]
    model = AlbertForPreTraining(AlbertConfig(**config | {"hidden_act": "gelu_new"}, attn_implementation=PACKED)).eval()
    weights = parameters(values, "w/")
    mapping = model.albert.encoder.embedding_hidden_mapping_in
    if "albert.encoder.embedding_hidden_mapping_in.weight" not in weights:  # the original has none between equal widths
        nn.init.eye_(mapping.weight)
        nn.init.zeros_(mapping.bias)
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert not unexpected
    assert all("decoder" in each or "mapping_in" in each for each in missing)
    return with_trained_padding(model)


def batch_of(values: dict[str, np.ndarray]) -> PackedBatch:
    real, weights = values["in/input_mask"].astype(bool), values["in/masked_lm_weights"].astype(bool)
    lengths = real.sum(1)
    packed = pack(values["in/input_ids"][real], values["in/segment_ids"][real], lengths, np.arange(len(lengths)))
    places = values["in/masked_lm_positions"] + (np.cumsum(lengths) - lengths)[:, None]
    labels = {"masked_lm_positions": places[weights], "masked_lm_ids": values["in/masked_lm_ids"][weights]}
    labels["sentence_order_labels"] = values["in/next_sentence_labels"][:, 0]
    labels = {key: torch.from_numpy(value).long() for key, value in labels.items()}
    counts = {"masked_lm": int(weights.sum()), "sentence_order": len(lengths)}
    return PackedBatch(**{**packed.__dict__, "labels": labels, "counts": counts})


def loss_of(model: nn.Module, batch: PackedBatch) -> Tensor:
    """The loss; the original divides that of masks by their number + 1e-5."""
    sums, counts = model(batch), batch.counts
    return sums["masked_lm"] / (counts["masked_lm"] + 1e-5) + sums["sentence_order"] / counts["sentence_order"]


@pytest.mark.parametrize("name", [*RUNS, "embedding_equals_hidden"])
def test_losses_and_every_gradient_equal_tensorflows(name: str) -> None:
    values = dict(np.load(ALBERT / f"{name}.npz"))
    model, batch = model_of(name, values), batch_of(values)
    loss = loss_of(MLM_AND_SOP.with_loss(model), batch)
    assert loss.item() == pytest.approx(float(values["out/total_loss"]), abs=1e-5)
    loss.backward()
    wanted = parameters(values, "grad/")
    assert len(wanted) >= 24
    for key, gradient in wanted.items():
        torch.testing.assert_close(
            model.get_parameter(key).grad, gradient, atol=1e-5, rtol=1e-4, msg=lambda text, key=key: f"{key}: {text}"
        )
    hidden = encode(model, batch).detach().numpy()
    real = values["in/input_mask"].astype(bool)
    np.testing.assert_allclose(hidden, values["out/sequence_output"][real], atol=1e-5)


@pytest.mark.parametrize("name", RUNS)
def test_every_weight_after_steps_equals_tensorflows(name: str) -> None:
    values = dict(np.load(ALBERT / f"{name}.npz"))
    model, batch = model_of(name, values), batch_of(values)
    with_loss = MLM_AND_SOP.with_loss(model).eval()
    optimizer = make_optimizer(with_loss, RUNS[name], WorkingCopy(with_loss, torch.float32), FAMILY.optimizer)
    for step, wanted in enumerate(values["out/step_losses"]):
        optimizer.zero_grad()
        loss = loss_of(with_loss, batch)
        assert loss.item() == pytest.approx(float(wanted), abs=2e-5)
        loss.backward()
        optimizer.clip_by_global_norm()
        rate = learning_rate_at(step, 0.02, 10, 4, FAMILY.optimizer)
        assert rate == pytest.approx(float(values["out/step_lrs"][step]), abs=1e-8)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
    after = parameters(values, "params_after_6/")
    assert len(after) >= 5
    for key, weight in after.items():
        if key.endswith("key.bias"):  # its gradient is 0 but for rounding, which the optimizer makes as large as any
            continue
        torch.testing.assert_close(
            model.get_parameter(key).detach(), weight, atol=5e-5, rtol=1e-5, msg=lambda text, key=key: f"{key}: {text}"
        )
