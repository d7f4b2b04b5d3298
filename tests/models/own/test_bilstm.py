"""A head reads what sees all of a sequence: the last token of a causal model, both ends of a BiLSTM."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import write_reviews
from safetensors.torch import load_file
from torch import nn
from transformers import AutoModel

from bertcli.errors import Interrupted, UserError
from bertcli.lifecycle.evaluate import evaluate
from bertcli.lifecycle.export import export
from bertcli.lifecycle.finetune import finetune
from bertcli.lifecycle.predict import predict
from bertcli.lifecycle.pretrain import pretrain
from bertcli.models.own.bilstm import add_bilstm
from tests.models.test_packed import LENGTHS, make_batch, make_models
from tests.support import with_loss
from tests.training.test_loop import assert_same_bits, stop_after

OPTIONS = {"batch_size": 8, "max_seq_length": 24, "learning_rate": 1e-3, "baseline": False, "precision": "float32"}
LAST, ROWS = torch.tensor(LENGTHS) - 1, torch.arange(len(LENGTHS))


@pytest.fixture(scope="module")
def start(home: Path) -> str:
    """A model that was pre-trained from left to right."""
    options = {"size": "tiny", "steps": 2, "batch_size": 8, "objective": "left-to-right", "precision": "float32"}
    return pretrain(**options, data=str(home / "pretraining-data"), out=str(home / "runs-of-bilstm" / "start")).run


@pytest.fixture(scope="module")
def reviews(home: Path) -> str:
    return str(write_reviews(home / "runs-of-bilstm.csv"))


@pytest.mark.parametrize("kind", ["classify", "choose"])
def test_a_causal_models_head_reads_the_last_token(kind: str) -> None:
    packed, padded = make_models(kind, is_decoder=True)
    batch, columns = make_batch({"choice_sequences": ROWS[:, None]}, {})
    hidden = padded.bert(**columns).last_hidden_state[ROWS, LAST]
    wanted = padded.classifier(padded.bert.pooler(hidden[:, None]))
    for has_gradient in (True, False):
        with torch.set_grad_enabled(has_gradient):
            found = with_loss(packed, kind).eval().head(packed, batch)["logits"]
        torch.testing.assert_close(found.view_as(wanted), wanted, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("is_decoder", [False, True])
@pytest.mark.parametrize("kind", ["classify", "regress", "multilabel", "choose", "tag", "span"])
def test_a_bilstm_stands_between_any_encoder_and_any_head(kind: str, is_decoder: bool) -> None:
    packed, padded = make_models(
        {"regress": "classify", "multilabel": "classify"}.get(kind, kind), is_decoder=is_decoder
    )
    add_bilstm(packed)
    batch, columns = make_batch({"choice_sequences": ROWS[:, None], "word_positions": torch.arange(42)}, {})
    lstm: nn.LSTM = packed.bilstm
    states = padded.bert(**columns).last_hidden_state
    outputs = [nn.LSTM.forward(lstm, row[:length])[0] for row, length in zip(states, LENGTHS, strict=True)]  # of [S, H]
    found = with_loss(packed, kind).eval().head(packed, batch)
    if kind == "tag":
        torch.testing.assert_close(found["logits"], padded.classifier(torch.cat(outputs)), atol=1e-5, rtol=1e-4)
    elif kind == "span":
        start = padded.qa_outputs(torch.cat(outputs))[:, 0]
        torch.testing.assert_close(found["start"][found["start"] > -torch.inf], start, atol=1e-5, rtol=1e-4)
    else:
        ends = torch.stack([torch.cat([each[-1, :16], each[0, 16:]]) for each in outputs])
        wanted = padded.classifier(padded.bert.pooler(ends[:, None]))
        torch.testing.assert_close(found["logits"].view_as(wanted), wanted, atol=1e-5, rtol=1e-4)
    next(iter(found.values())).nan_to_num(neginf=0).sum().backward()
    assert lstm.weight_hh_l0_reverse.grad.abs().sum() > 0


def test_a_bilstm_is_saved_loaded_and_resumed_with_its_model(
    reviews: str, start: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = {**OPTIONS, "task": reviews, "from_": start, "bilstm": True, "epochs": 1, "save_minutes": 0}
    whole = finetune(**request, out=str(tmp_path / "whole"))
    with monkeypatch.context() as patch:
        stop_after(patch, 4)
        with pytest.raises(Interrupted):
            finetune(**request, out=str(tmp_path / "part"))
    part = finetune(reviews, resume=True, out=str(tmp_path / "part"))
    assert_same_bits(whole.run, part.run)
    assert sum(name.startswith("bilstm.") for name in load_file(Path(whole.model) / "model.safetensors")) == 8
    assert json.loads((Path(whole.model) / "config.json").read_text())["is_decoder"]
    scored = evaluate(reviews, model=whole.run)
    assert scored.metrics["accuracy"] == whole.metrics["accuracy"]
    saved = [json.loads(line) for line in (Path(whole.run) / "predictions.jsonl").read_text().splitlines()]
    assert saved[0]["label"] in ("good", "bad")
    assert predict("the cat sat", model=whole.run).records
    assert AutoModel.from_pretrained(whole.model).config.is_decoder
    card = (Path(whole.run) / "README.md").read_text()
    assert "import AutoModel, " in card
    assert "has a BiLSTM between its encoder and its head" in card
    with pytest.raises(UserError, match="has a BiLSTM between its encoder and its head, which is not exported"):
        export(whole.run, out=str(tmp_path / "export"))


def test_a_causal_model_fills_no_mask_and_its_card_says_what_it_gives(home: Path, start: str) -> None:
    with pytest.raises(UserError, match=r"predicts next tokens, so it cannot fill \[MASK\]") as caught:
        predict("the [MASK] sat", model=start)
    assert "--model bert-books" in caught.value.hint
    card = (Path(start) / "README.md").read_text()
    assert "import AutoModelForCausalLM, " in card
    assert "--features states.jsonl" in card
    assert np.isfinite(json.loads((Path(start) / "result.json").read_text())["metrics"]["next_token_loss"])
