"""Models are loaded as they were saved, and what cannot be opened is one error."""

import json
from pathlib import Path

import pytest
import torch
import transformers

from bertcli.errors import UserError
from tests.families.checks import KINDS, SIZES, make_batch, objective_of, save


def change_config(folder: Path, **values: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


@pytest.mark.parametrize("saved", [{"return_dict": False}, {"output_attentions": True}, {"output_hidden_states": True}])
def test_outputs_that_a_saved_config_asks_for_change_nothing(saved: dict[str, bool], tmp_path: Path) -> None:
    save("Bert", SIZES, KINDS["tag"], tmp_path)
    batch, _ = make_batch({"word_positions": torch.arange(17)}, has_types=True)
    wanted = objective_of("tag", tmp_path).outputs(batch)["logits"]
    change_config(tmp_path, **saved)
    torch.testing.assert_close(objective_of("tag", tmp_path).outputs(batch)["logits"], wanted)


def test_a_decoders_tokens_see_what_is_before_them_only(tmp_path: Path) -> None:
    save("Bert", SIZES, KINDS["tag"], tmp_path)
    change_config(tmp_path, is_decoder=True)
    theirs = transformers.AutoModelForTokenClassification.from_pretrained(tmp_path)
    batch, padded = make_batch({"word_positions": torch.arange(17)}, has_types=True)
    found = objective_of("tag", tmp_path).outputs(batch)["logits"]
    torch.testing.assert_close(found, theirs(**padded).logits[0].detach(), atol=1e-5, rtol=1e-4)


def test_what_transformers_cannot_open_is_one_error(tmp_path: Path) -> None:
    save("Bert", SIZES, KINDS["classify"], tmp_path / "heads")
    change_config(tmp_path / "heads", num_attention_heads=5)
    save("Canine", {**SIZES, "num_hash_buckets": 64}, KINDS["classify"], tmp_path / "canine")
    for name, why in (("heads", "not a multiple of the number of attention heads"), ("canine", "get_input_embeddings")):
        with pytest.raises(UserError, match=f"cannot be opened: .*{why}"):
            objective_of("classify", tmp_path / name)
