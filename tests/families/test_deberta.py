"""DeBERTa runs packed as it runs padded in transformers; version 3 is trained with its generator."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import transformers
from conftest import GOLDENS, write_reviews
from safetensors.torch import load_file

from bertcli.errors import Interrupted, UserError
from bertcli.families.deberta import DEBERTA
from bertcli.lifecycle.build_vocab import build_vocab
from bertcli.lifecycle.finetune import finetune
from bertcli.lifecycle.make_pretraining_data import make_pretraining_data
from bertcli.lifecycle.predict import predict
from bertcli.lifecycle.pretrain import pretrain
from bertcli.models.loading import load_model
from bertcli.models.own import disentangled
from bertcli.models.working_copy import WorkingCopy
from bertcli.training.optimizer import make_optimizer
from bertcli.training.plan import learning_rate_at
from tests.families.checks import KINDS, SIZES, check_finetuning, check_gradients, check_outputs, save
from tests.training.test_loop import stop_after

RELATIVE = {**SIZES, "relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_biased_input": False}
V3 = {**RELATIVE, "position_buckets": 4, "norm_rel_ebd": "layer_norm", "share_att_key": True}
CONFIGS = {
    "v1": ("Deberta", RELATIVE),
    "v1-c2p": ("Deberta", {**RELATIVE, "pos_att_type": ["c2p"], "type_vocab_size": 2, "max_relative_positions": 6}),
    "v3": ("DebertaV2", V3),
    "v2-conv": ("DebertaV2", {**V3, "conv_kernel_size": 3, "conv_act": "gelu"}),
    "v2-own-keys": ("DebertaV2", {**V3, "share_att_key": False, "pos_att_type": ["p2c"], "position_buckets": -1}),
    "absolute": ("DebertaV2", SIZES),
}
CASES = [
    (name, kind)
    for name, (classes, _) in CONFIGS.items()
    for kind, head in KINDS.items()
    if hasattr(transformers, f"{classes}For{head}")
]


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disentangled, "BLOCK", 4)


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_outputs_are_those_of_transformers(name: str, kind: str, tmp_path: Path) -> None:
    check_outputs(*CONFIGS[name], kind, tmp_path)


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("name", CONFIGS)
def test_gradients_are_those_of_transformers(name: str, tmp_path: Path) -> None:
    check_gradients(*CONFIGS[name], tmp_path)


@pytest.mark.parametrize("name", ["v1", "v3"])
def test_it_is_finetuned_and_predicts(name: str, workspace: Path) -> None:
    check_finetuning(*CONFIGS[name])


WORDS = "deberta.embeddings.word_embeddings.weight"
TINY = {"size": "tiny", "layers": 2, "hidden_size": 32, "heads": 2, "batch_size": 8}


@pytest.fixture(scope="module")
def data(home: Path) -> str:
    folder, text = home / "data-of-families", str(home / "corpus.txt")
    vocab = build_vocab(text, family="deberta-v3", vocab_size=150, out=str(folder / "vocab-of-deberta")).out
    options = {"family": "deberta-v3", "tokenizer": vocab, "max_seq_length": 48, "workers": 1}
    return make_pretraining_data(text, **options, out=str(folder / "deberta")).out


@pytest.fixture(scope="module")
def run(home: Path, data: str) -> Path:
    """A model with its generator, pre-trained in one piece."""
    return Path(pretrain(**TINY, data=data, steps=4, out=str(home / "runs-of-families" / "deberta")).run)


def test_both_models_of_version_3_open_in_transformers(run: Path) -> None:
    for folder, name in ((run / "model", "DebertaV2Model"), (run / "model" / "generator", "DebertaV2ForMaskedLM")):
        model, info = getattr(transformers, name).from_pretrained(folder, output_loading_info=True)
        assert not info["missing_keys"]
        assert all(key.startswith("mask_predictions.") for key in info["unexpected_keys"])
        assert model.config.num_hidden_layers == (2 if name == "DebertaV2Model" else 1)
        assert type(transformers.AutoTokenizer.from_pretrained(folder)).__name__ == "DebertaV2Tokenizer"
    model, generator = (load_file(each / "model.safetensors") for each in (run / "model", run / "model" / "generator"))
    own = model[WORDS] - generator[WORDS]
    assert 0 < own.abs().max() < 0.01


def test_a_resumed_run_of_version_3_ends_with_the_same_bits(
    run: Path, data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = str(tmp_path / "again")
    with monkeypatch.context() as patch:
        stop_after(patch, 2)
        with pytest.raises(Interrupted):
            pretrain(**TINY, data=data, steps=4, out=out)
    pretrain(resume=True, out=out)
    for folder in ("model", "model/generator"):
        one, other = (load_file(each / folder / "model.safetensors") for each in (run, Path(out)))
        assert one.keys() == other.keys()
        assert all(torch.equal(one[name], other[name]) for name in one), folder


def test_version_3_goes_on_with_its_generator_fills_masks_and_is_finetuned(
    run: Path, data: str, workspace: Path
) -> None:
    again = Path(pretrain(batch_size=8, data=data, steps=1, learning_rate=0.0, from_=str(run)).run)
    for folder in ("model", "model/generator"):
        one, other = (load_file(each / folder / "model.safetensors") for each in (run, again))
        torch.testing.assert_close(one, other)
    (record,) = predict("the [MASK] sat", model=str(run)).records
    assert len(record["fills"]) == 5
    write_reviews(Path("reviews.csv"), 24)
    assert finetune("reviews.csv", from_=str(run), epochs=1, baseline=False).metrics


def test_schedules_and_updates_are_those_of_the_original() -> None:
    golden = json.loads((GOLDENS / "deberta" / "optimizer.json").read_text())
    names = {"warmup_linear": "bert", "warmup_linear_shift": "linear", "warmup_constant": "constant"}
    names |= {"warmup_cosine": "cosine", "warmup_linear_cosine": "linear-cosine"}
    for theirs, wanted in golden["schedules_total100_warmup0.1"].items():
        rules = replace(DEBERTA.optimizer, schedule=names[theirs])
        for step, rate in wanted[:-1]:  # after the last step, the original begins again
            assert learning_rate_at(step, 1.0, 100, 10, rules) == pytest.approx(rate, abs=1e-12), (theirs, step)
    given = golden["adamw"]
    model = torch.nn.Linear(5, 1, bias=False)
    model.weight.data = torch.tensor([given["initial"]])
    optimizer = make_optimizer(model, "bert", WorkingCopy(model, torch.float32), DEBERTA.optimizer)
    for gradient, wanted in zip(given["grads"], given["params_after"], strict=True):
        model.weight.grad = torch.tensor([gradient])
        optimizer.param_groups[0]["lr"] = given["lr"]
        optimizer.step()
        torch.testing.assert_close(model.weight.data[0], torch.tensor(wanted), atol=1e-6, rtol=0)


def test_talking_heads_are_refused(tmp_path: Path) -> None:
    save("Deberta", {**SIZES, "talking_head": True}, "Model", tmp_path)
    with pytest.raises(UserError, match="has talking_head True "):
        load_model(str(tmp_path))
