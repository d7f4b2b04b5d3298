"""The model that ships works at once, without a run and without a network."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForMaskedLM

from bertcli.config.recipes import SHIPPED, shipped_model
from bertcli.data.text.tokenization import load_tokenizer
from bertcli.lifecycle.finetune import finetune
from bertcli.lifecycle.make_pretraining_data import make_pretraining_data
from bertcli.lifecycle.predict import predict
from bertcli.lifecycle.pretrain import pretrain
from bertcli.lifecycle.workspace import resolve_model

NAMES = ["the king rode out\tking", "a ship at sea\tship", "the king is dead\tking", "the ship has sunk\tship"]


def test_a_mask_is_filled_in_an_empty_folder(workspace: Path, said: pytest.LogCaptureFixture) -> None:
    found = predict("He sat by the [MASK] and read.")
    assert found.model == shipped_model()
    assert f"model: {SHIPPED}, as no run in this folder is pre-trained" in said.text
    fills = [fill["token"] for fill in found.records[0]["fills"]]
    assert set(fills) & {"door", "window", "fire", "table"}


def test_finetuning_starts_from_it_where_nothing_is_pretrained(workspace: Path, said: pytest.LogCaptureFixture) -> None:
    Path("nouns.tsv").write_text("text\tlabel\n" + "\n".join(NAMES * 10) + "\n")
    run = finetune("nouns.tsv", epochs=1)
    assert f"starting from {SHIPPED}" in said.text
    assert predict("the king", model=run.run).records[0]["label"] in ("king", "ship")


def test_new_weights_take_its_vocabulary_where_there_is_none(workspace: Path, said: pytest.LogCaptureFixture) -> None:
    Path("nouns.tsv").write_text("text\tlabel\n" + "\n".join(NAMES * 10) + "\n")
    run = finetune("nouns.tsv", from_="scratch", size="tiny", epochs=1).run
    assert f"vocabulary: {SHIPPED} (in the package, as none is in this folder)" in said.text
    assert load_tokenizer(f"{run}/model").digest == load_tokenizer(shipped_model()).digest
    Path("king.txt").write_text("the king rode out\n\na ship at sea\n")
    make_pretraining_data("king.txt", tokenizer=SHIPPED, max_seq_length=16, out="more")
    assert pretrain(from_=SHIPPED, data="more", steps=1).steps == 1


def test_it_has_a_name_and_opens_in_plain_transformers() -> None:
    folder = resolve_model(SHIPPED)
    weights = load_file(Path(folder) / "model.safetensors")
    assert {tensor.dtype for tensor in weights.values()} == {torch.float8_e4m3fn, torch.float16}
    assert sum(path.stat().st_size for path in Path(folder).rglob("*.*")) <= 12_000_000
    model, info = AutoModelForMaskedLM.from_pretrained(folder, output_loading_info=True)
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    assert (Path(folder) / "README.md").read_text().startswith("---\nlicense: ")
