"""DeBERTa's mask decoder gives the losses and gradients of the authors' code."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch.nn.functional import cross_entropy

from bertcli.data.packing.batches import PackedBatch, pack
from bertcli.models.loading import load_model
from bertcli.models.own import deberta
from bertcli.models.packed import PACKED
from bertcli.objectives.masked_lm import MLM

TIED = "lm_predictions.lm_head.weight"  # to the embeddings of tokens
GOLDENS = Path(__file__).parents[2] / "goldens" / "deberta"


def golden(name: str) -> dict[str, np.ndarray]:
    with np.load(GOLDENS / f"{name}.npz") as file:
        return dict(file)


def config_of(name: str, **more: Any) -> dict[str, Any]:
    given = json.loads((GOLDENS / f"mlm_{name}.config.json").read_text())
    terms = [term for term in given.pop("pos_att_type").split("|") if term != "none"]
    return {**given, "pos_att_type": terms, "pad_token_id": given.pop("padding_idx"), "legacy": False, **more}


def original_model(name: str) -> Any:
    """The model of a golden, by the classes of version 2, which has the names of the weights of the authors' code."""
    model = deberta.DebertaV2ForMaskedLM(transformers.DebertaV2Config(**config_of(name), attn_implementation=PACKED))
    found = {key[2:]: torch.from_numpy(value) for key, value in golden(f"mlm_{name}").items() if key[:2] == "w/"}
    assert [*model.load_state_dict(found, strict=False)] == [[TIED], []]
    return deberta.run_packed(model).eval()


def packed(name: str) -> PackedBatch:
    """The padded sequences of a golden, packed."""
    given = golden(f"mlm_{name}")
    is_token = given["in/mask"] > 0
    ids, labels, lengths = given["in/input_ids"][is_token], given["in/labels"][is_token], is_token.sum(1)
    masked = {"masked_lm_positions": np.flatnonzero(labels), "masked_lm_ids": labels[labels > 0]}
    targets = {key: torch.from_numpy(value) for key, value in masked.items()}
    return PackedBatch(**{**pack(ids, None, lengths, np.arange(len(lengths))).__dict__, "labels": targets})


@pytest.mark.parametrize("name", ["v1", "v3", "abs"])
def test_logits_losses_and_gradients_are_those_of_the_original(name: str) -> None:
    model, batch, wanted = original_model(name), packed(name), golden(f"mlm_{name}")
    logits = MLM.outputs(model, batch)["masked_lm"]
    torch.testing.assert_close(logits, torch.from_numpy(wanted["out/logits"]), atol=1e-5, rtol=1e-5)
    losses = cross_entropy(logits, batch.labels["masked_lm_ids"], reduction="none")
    torch.testing.assert_close(losses, torch.from_numpy(wanted["out/loss_per_token"]), atol=1e-5, rtol=1e-5)
    losses.mean().backward()
    norms = {key: float(value.grad.norm()) for key, value in model.named_parameters() if value.grad is not None}
    of_original = {key[10:]: float(value) for key, value in wanted.items() if key.startswith("grad_norm/")}
    assert norms == pytest.approx(of_original, rel=1e-4, abs=1e-5)


def test_version_1_has_the_same_logits_by_its_own_classes() -> None:
    given = {key[2:]: torch.from_numpy(value) for key, value in golden("mlm_v1").items() if key[:2] == "w/"}
    config = transformers.DebertaConfig(**config_of("v1"), attn_implementation=PACKED)
    model = deberta.run_packed(deberta.DebertaForMaskedLM(config)).eval()
    weights = {key: value for key, value in given.items() if ".attention.self." not in key}
    for number in range(3):
        of_layer = f"deberta.encoder.layer.{number}.attention.self."
        own = {key.removeprefix(of_layer): value for key, value in given.items() if key.startswith(of_layer)}
        parts = [own[f"{part}_proj.weight"].view(4, 8, 32) for part in ("query", "key", "value")]
        weights[f"{of_layer}in_proj.weight"] = torch.cat(parts, 1).reshape(96, 32)
        weights |= {f"{of_layer}{part[0]}_bias": own[f"{part}_proj.bias"] for part in ("query", "value")}
        weights[f"{of_layer}pos_proj.weight"] = own["pos_key_proj.weight"]
        weights |= {f"{of_layer}pos_q_proj.{part}": own[f"pos_query_proj.{part}"] for part in ("weight", "bias")}
    assert [*model.load_state_dict(weights, strict=False)] == [[TIED], []]
    batch = packed("v1")
    logits = MLM.outputs(model, batch)["masked_lm"]
    torch.testing.assert_close(logits, torch.from_numpy(golden("mlm_v1")["out/logits"]), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["v1", "v3"])
def test_a_saved_model_opens_in_transformers_and_keeps_its_mask_decoder(name: str, tmp_path: Path) -> None:
    classes = "Deberta" if name == "v1" else "DebertaV2"
    config = getattr(transformers, f"{classes}Config")(**config_of(name))
    torch.manual_seed(0)
    model = getattr(deberta, f"{classes}ForMaskedLM")(config)
    model.save_pretrained(tmp_path)
    batch = packed(name)
    loaded = load_model(str(tmp_path)).eval()
    model.config._attn_implementation = PACKED
    wanted = MLM.outputs(deberta.run_packed(model).eval(), batch)["masked_lm"]
    torch.testing.assert_close(MLM.outputs(loaded, batch)["masked_lm"], wanted)
    written = json.loads((tmp_path / "config.json").read_text())
    del written["legacy"]  # as in the original's folders
    (tmp_path / "config.json").write_text(json.dumps(written))
    torch.testing.assert_close(MLM.outputs(load_model(str(tmp_path)).eval(), batch)["masked_lm"], wanted)
    (tmp_path / "config.json").write_text(json.dumps({**written, "legacy": False}))
    for head in ("ForMaskedLM", "Model", "ForSequenceClassification"):
        theirs = getattr(transformers, f"{classes}{head}")
        _, info = theirs.from_pretrained(tmp_path, output_loading_info=True)
        assert not [key for key in info["missing_keys"] if not key.startswith(("pooler", "classifier"))]
        assert head == "ForMaskedLM" or "lm_predictions" in str(info["unexpected_keys"])
        assert "position_embeddings" not in str(info["unexpected_keys"])


def test_a_model_without_absolute_positions_reads_masks_as_transformers_does(tmp_path: Path) -> None:
    theirs = transformers.DebertaV2ForMaskedLM(transformers.DebertaV2Config(**config_of("v3"))).eval()
    theirs.save_pretrained(tmp_path)
    given, batch = golden("mlm_v3"), packed("v3")
    ids, mask = (torch.from_numpy(given[f"in/{name}"]) for name in ("input_ids", "mask"))
    wanted = theirs(ids, attention_mask=mask).logits[torch.from_numpy(given["in/labels"]) > 0]
    for _ in range(2):  # saved again, it stays so
        ours = load_model(str(tmp_path)).eval()
        torch.testing.assert_close(MLM.outputs(ours, batch)["masked_lm"], wanted, atol=1e-5, rtol=1e-5)
        ours.save_pretrained(tmp_path)
