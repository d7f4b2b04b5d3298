"""DeBERTa 3's two models give the losses of the authors' code, and share embeddings as they do."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from bertcli.data.packing.batches import pack
from bertcli.models.encoder import encode
from bertcli.models.own import deberta
from bertcli.models.own.replaced_tokens import DebertaV2ForPreTraining, disentangle_embeddings, with_first
from bertcli.models.packed import PACKED
from bertcli.objectives.masked_lm import MLM
from bertcli.objectives.objective import Objective
from bertcli.objectives.rtd_gdes import RTD_ES, RTD_GDES, RTD_NONE
from tests.models.own.test_deberta import GOLDENS, TIED, config_of, golden

FACTS = json.loads((GOLDENS / "rtd.json").read_text())
WORDS = "deberta.embeddings.word_embeddings"


def models(objective: Any = RTD_GDES) -> tuple[deberta.DebertaV2ForMaskedLM, DebertaV2ForPreTraining]:
    """The generator and the model of the golden, which share embeddings as an objective says."""
    given = {key[2:]: torch.from_numpy(value) for key, value in golden("rtd_gdes").items() if key[:2] == "w/"}
    config = config_of("v3", attn_implementation=PACKED)
    generator = deberta.DebertaV2ForMaskedLM(transformers.DebertaV2Config(**{**config, "num_hidden_layers": 2}))
    model = DebertaV2ForPreTraining(transformers.DebertaV2Config(**config))
    objective.share(model, generator)
    for name, each in (("generator.", generator), ("discriminator.", model)):
        own = {
            key.removeprefix(name).replace("._w", ".w"): value for key, value in given.items() if key.startswith(name)
        }
        assert {*each.load_state_dict(own, strict=False).missing_keys} <= {TIED}
        deberta.run_packed(each).eval()
    return generator, model


@pytest.mark.parametrize(("objective", "way"), [(RTD_GDES, "gdes"), (RTD_NONE, "none"), (RTD_ES, "es")])
def test_losses_and_gradients_are_those_of_the_original(objective: Objective, way: str) -> None:
    generator, model = models(objective)
    facts, given = FACTS[way], golden("rtd_gdes")
    if way == "none":  # where the same draws are the embeddings themselves, not a tenth of them beside others
        model.get_input_embeddings().weight.data.mul_(10)
    is_token = given["in/mask"] > 0
    masked = given["in/labels"][is_token]
    batch = pack(given["in/input_ids"][is_token].astype(np.int64), None, is_token.sum(1), np.arange(3))
    places, originals = (
        torch.from_numpy(each) for each in (np.flatnonzero(masked), masked[masked > 0].astype(np.int64))
    )
    batch.labels.update(masked_lm_positions=places, masked_lm_ids=originals)
    generated = cross_entropy(MLM.outputs(generator, batch)["masked_lm"], originals, reduction="none")
    sampled = torch.from_numpy(given["sampled_ids"][is_token].astype(np.int64))
    replaced = sampled != batch.input_ids.index_copy(0, places, originals)
    assert replaced.tolist() == (given["out/rtd_targets"] > 0).tolist()
    batch = pack(sampled.numpy(), None, is_token.sum(1), np.arange(3))
    logits = model.mask_predictions(with_first(encode(model, batch), batch))
    losses = binary_cross_entropy_with_logits(logits, replaced.float(), reduction="none")
    losses.mean().backward()
    learning = [name for name, weight in generator.named_parameters() if weight.grad is not None]
    assert learning == ([f"{WORDS}.weight"] if way == "es" else [])
    if way == "gdes":
        wanted = torch.from_numpy(given["out/mlm_loss_per_token"])
        torch.testing.assert_close(generated, wanted, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(logits, torch.from_numpy(given["out/disc_logits"][is_token]), atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(losses, torch.from_numpy(given["out/rtd_loss_per_token"]), atol=1e-5, rtol=1e-5)
    if way != "es":  # of which the weights of the golden are not kept
        (norm,) = facts["discriminator_embedding_grad_norm_from_RTD_loss"].values()
        assert 10 * float(model.get_input_embeddings().weight.grad.norm()) == pytest.approx(norm, rel=1e-4)
        assert losses.mean().item() == pytest.approx(facts["rtd_loss"], rel=1e-5)
        assert (generated.mean() + 10 * losses.mean()).item() == pytest.approx(facts["joint_lambda_10"], rel=1e-5)


def test_a_saved_model_has_whole_embeddings(tmp_path: Path) -> None:
    generator, model = models()
    whole = generator.get_input_embeddings().weight + model.get_input_embeddings().weight
    model.save_pretrained(tmp_path)
    loaded, info = transformers.DebertaV2Model.from_pretrained(tmp_path, output_loading_info=True)
    assert not info["missing_keys"]
    torch.testing.assert_close(loaded.get_input_embeddings().weight, whole)
    saved = DebertaV2ForPreTraining.from_pretrained(tmp_path)
    own = model.get_input_embeddings().weight
    disentangle_embeddings(saved, generator, is_new=False)
    torch.testing.assert_close(saved.get_input_embeddings().weight, own)
