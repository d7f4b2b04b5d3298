"""XLNet runs packed as it runs padded in transformers, and reads its own pieces, with `<cls>` last."""

from pathlib import Path

import numpy as np
import pytest
import torch

from bertcli.data.packing.batches import pack
from bertcli.errors import UserError
from bertcli.models.formats.engines import GraphModel, load_onnxruntime
from bertcli.models.formats.onnx import write_graph
from bertcli.models.heads import sequence_logits
from bertcli.models.loading import load_model
from bertcli.models.own.two_streams import run_packed
from tests.data.text.tokenizers import save_xlnet_pieces
from tests.families.checks import KINDS, check_gradients, check_outputs, check_own_tokenizer, make_batch, save

SHAPE = {"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 64, "ff_activation": "gelu_pytorch_tanh"}
CONFIG = {"vocab_size": 50, "num_labels": 2, "pad_token_id": 5, **SHAPE}


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_are_those_of_transformers(kind: str, tmp_path: Path) -> None:
    theirs = save("XLNet", CONFIG, "QuestionAnsweringSimple", tmp_path) if kind == "span" else None
    check_outputs("XLNet", CONFIG, kind, tmp_path, theirs=theirs)


def test_gradients_are_those_of_transformers(tmp_path: Path) -> None:
    check_gradients("XLNet", CONFIG, tmp_path)


def test_it_is_used_with_its_own_tokenizer(workspace: Path) -> None:
    save_xlnet_pieces(Path("start"))
    check_own_tokenizer("XLNet", CONFIG, fills="LMHeadModel")


@pytest.mark.torture
def test_a_graph_reads_the_last_token_of_each_text(tmp_path: Path) -> None:
    save("XLNet", CONFIG, "SequenceClassification", tmp_path)
    model, (batch, padded) = load_model(str(tmp_path)).eval(), make_batch({}, has_types=True)
    with torch.no_grad():
        expected = sequence_logits(model, batch)["logits"]
    write_graph(model, tmp_path / "model.onnx")
    found = GraphModel(load_onnxruntime(tmp_path / "model.onnx"), model.config)(**padded)["logits"]
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("longest", [33, 48])
def test_bfloat16_takes_inputs_of_any_length(longest: int, tmp_path: Path) -> None:
    save("XLNet", CONFIG, "SequenceClassification", tmp_path)
    model = load_model(str(tmp_path)).eval()
    lengths = np.array([longest, 9])
    batch = pack(np.full(longest + 9, 7), np.zeros(longest + 9, np.int64), lengths, np.arange(2))
    with torch.no_grad():
        expected = sequence_logits(model, batch)["logits"]
        with torch.autocast("cpu", torch.bfloat16):
            found = sequence_logits(model, batch)["logits"]
        cast = sequence_logits(model.bfloat16(), batch)["logits"]
    for each in (found, cast):
        torch.testing.assert_close(each.float(), expected, atol=2e-2, rtol=2e-2)


def test_a_classifier_can_be_made_again_of_its_class(tmp_path: Path) -> None:
    save("XLNet", CONFIG, "SequenceClassification", tmp_path)
    model = load_model(str(tmp_path))
    assert type(run_packed(type(model)(model.config))) is type(model)


def test_settings_that_are_not_computed_are_refused(tmp_path: Path) -> None:
    for setting in ({"attn_type": "uni"}, {"summary_type": "mean"}):
        save("XLNet", {**CONFIG, **setting}, "SequenceClassification", tmp_path)
        with pytest.raises(UserError, match=f"has {next(iter(setting))} "):
            load_model(str(tmp_path))
