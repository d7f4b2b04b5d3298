"""Checkpoints of the original come in and go out with every bit."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from conftest import GOLDENS
from transformers import (
    AutoModelForPreTraining,
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    BertForTokenClassification,
)

from bertcli.errors import UserError
from bertcli.lifecycle.convert import convert
from bertcli.models.formats.tensor_bundle import read_bundle, write_bundle

CHECKPOINT = GOLDENS / "tf_checkpoint"


def test_a_checkpoint_is_read_as_tensorflow_wrote_it() -> None:
    tensors = read_bundle(CHECKPOINT / "bert_model.ckpt")
    values = np.load(GOLDENS / "model" / "pretraining.npz")
    assert tensors.keys() == {key.removeprefix("w/") for key in values if key.startswith("w/")}
    for name, tensor in tensors.items():
        assert np.array_equal(tensor, values[f"w/{name}"]), name


def test_a_checkpoint_is_written_byte_for_byte_as_tensorflow_does(workspace: Path) -> None:
    write_bundle(read_bundle(CHECKPOINT / "bert_model.ckpt"), Path("bert_model.ckpt"))
    for name in ("bert_model.ckpt.index", "bert_model.ckpt.data-00000-of-00001"):
        assert Path(name).read_bytes() == (CHECKPOINT / name).read_bytes(), name


def test_there_and_back_again_keeps_every_bit(workspace: Path) -> None:
    there = convert(str(CHECKPOINT), out="model")
    assert (there.to, there.left_out) == ("transformers", [])
    model, info = AutoModelForPreTraining.from_pretrained("model", output_loading_info=True)
    assert not info["missing_keys"]
    assert model.config.hidden_act == "gelu_pytorch_tanh"
    assert model.config.layer_norm_eps == 1e-12
    back = convert("model", out="back")
    assert back.to == "tensorflow"
    for name in ("bert_model.ckpt.index", "bert_model.ckpt.data-00000-of-00001"):
        assert (Path("back") / name).read_bytes() == (CHECKPOINT / name).read_bytes()
    original = json.loads((CHECKPOINT / "bert_config.json").read_text())
    assert json.loads(Path("back/bert_config.json").read_text()) == original


def test_the_names_of_labels_come_back(workspace: Path) -> None:
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    names = {0: "bad", 1: "fair", 2: "good"}
    config = BertConfig(**sizes, vocab_size=20, hidden_act="gelu_pytorch_tanh", id2label=names)
    BertForSequenceClassification(config).save_pretrained("model")
    convert("model", out="there")
    convert("there", out="back")
    assert BertConfig.from_pretrained("back").id2label == names


def test_a_checkpoint_is_read_from_the_zip_it_is_released_in(workspace: Path) -> None:
    shutil.copytree(CHECKPOINT, "release/uncased_L-2_H-8_A-2")
    shutil.make_archive("uncased_L-2_H-8_A-2", "zip", "release")
    convert("uncased_L-2_H-8_A-2.zip", out="from-zip")
    convert(str(CHECKPOINT), out="from-folder")
    assert Path("from-zip/model.safetensors").read_bytes() == Path("from-folder/model.safetensors").read_bytes()


def test_large_tables_of_several_blocks_are_read_back(workspace: Path) -> None:
    tensors = {f"scope_{i % 7}/{'long' * 40}_{i:05}": np.full((2, i % 5 + 1), i, dtype=np.float32) for i in range(3000)}
    write_bundle(tensors, Path("many"))
    read = read_bundle(Path("many"))
    assert read.keys() == tensors.keys()
    assert all(np.array_equal(read[name], tensors[name]) for name in tensors)


def test_a_damaged_checkpoint_is_refused(workspace: Path) -> None:
    shutil.copytree(CHECKPOINT, "damaged")
    data = Path("damaged/bert_model.ckpt.data-00000-of-00001")
    data.write_bytes(data.read_bytes()[:1000] + b"\x01" + data.read_bytes()[1001:])
    with pytest.raises(UserError, match="checksum"):
        convert("damaged", out="model")
    data.write_bytes(b"")
    with pytest.raises(UserError, match="damaged"):
        convert("damaged", out="model")
    assert not Path("model").exists()


@pytest.mark.parametrize("place", [0, 200, 1000, -48])
def test_a_damaged_index_is_refused(workspace: Path, place: int) -> None:
    shutil.copytree(CHECKPOINT, "damaged")
    index = Path("damaged/bert_model.ckpt.index")
    content = bytearray(index.read_bytes())
    content[place] ^= 0xFF
    index.write_bytes(content)
    with pytest.raises(UserError, match="damaged"):
        convert("damaged", out="model")


def test_a_damaged_zip_is_refused(workspace: Path) -> None:
    archive = Path(shutil.make_archive("uncased", "zip", CHECKPOINT))
    content = archive.read_bytes()
    archive.write_bytes(content[:300] + bytes(50) + content[350:])
    with pytest.raises(UserError, match="is damaged"):
        convert("uncased.zip", out="model")


def test_a_zip_that_is_cut_is_named(workspace: Path) -> None:
    archive = Path(shutil.make_archive("uncased", "zip", CHECKPOINT))
    archive.write_bytes(archive.read_bytes()[:3000])
    with pytest.raises(UserError, match=r"The zip `uncased.zip` is damaged"):
        convert("uncased.zip", out="model")


def test_a_checkpoint_without_its_vocabulary_is_said_and_one_of_another_refused(
    workspace: Path, said: pytest.LogCaptureFixture
) -> None:
    shutil.copytree(CHECKPOINT, "alone")
    Path("alone/vocab.txt").unlink(missing_ok=True)
    convert("alone", out="model")
    assert "there is no vocab.txt beside bert_model.ckpt" in said.text
    rows = BertConfig.from_pretrained("model").vocab_size
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{number}" for number in range(rows))]
    Path("alone/vocab.txt").write_text("\n".join(words) + "\n")
    with pytest.raises(UserError, match=f"has {rows + 5} tokens, the checkpoint {rows}: it is of another"):
        convert("alone", out="other")
    assert not Path("other").exists()


@pytest.mark.parametrize("text", ["{", "{}", "[]", '{"hidden_act": "swish9"}'])
def test_a_configuration_that_is_none_is_refused(workspace: Path, text: str) -> None:
    shutil.copytree(CHECKPOINT, "strange")
    Path("strange/bert_config.json").write_text(text)
    with pytest.raises(UserError, match="is not the configuration of a BERT"):
        convert("strange", out="model")


def test_one_checkpoint_of_several_is_named(workspace: Path) -> None:
    for step in (10, 2000):
        for file in CHECKPOINT.iterdir():
            Path("steps").mkdir(exist_ok=True)
            shutil.copyfile(file, Path("steps") / file.name.replace("bert_model.ckpt", f"model.ckpt-{step}"))
    with pytest.raises(UserError, match="holds 2 checkpoints") as refused:
        convert("steps", out="model")
    assert refused.value.hint == "Name one: bert convert steps/model.ckpt-2000"
    assert (
        convert("steps/model.ckpt-2000", out="one").tensors == convert("steps/model.ckpt-10.index", out="two").tensors
    )


def test_a_head_that_the_original_does_not_have_is_refused(workspace: Path) -> None:
    config = BertConfig(vocab_size=8, hidden_size=4, num_hidden_layers=1, num_attention_heads=1, intermediate_size=4)
    BertForTokenClassification(config).save_pretrained("tagger")
    with pytest.raises(UserError, match="is a BertForTokenClassification, which the original does not have"):
        convert("tagger", out="there")


def test_a_model_that_reads_from_left_to_right_is_refused(workspace: Path) -> None:
    config = BertConfig(vocab_size=8, hidden_size=4, num_hidden_layers=1, num_attention_heads=1, intermediate_size=4)
    config.is_decoder = True
    BertForMaskedLM(config).save_pretrained("causal")
    with pytest.raises(UserError, match="reads from left to right, which the original cannot"):
        convert("causal", out="google")
    assert not Path("google").exists()


def test_what_is_no_checkpoint_is_refused(workspace: Path) -> None:
    Path("folder").mkdir()
    with pytest.raises(UserError, match="holds no model"):
        convert("folder", out="model")
    Path("file").touch()
    with pytest.raises(UserError, match="`file` exists already and is not empty"):
        convert(str(CHECKPOINT), out="file")
