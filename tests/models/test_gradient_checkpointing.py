"""Layers that are computed again in the backward pass: the same losses, gradients and weights to the bit, in less memory."""

from pathlib import Path

import pytest
import torch
from transformers import BertConfig, BertForPreTraining

from bertcli.errors import UserError
from bertcli.lifecycle.build_vocab import build_vocab
from bertcli.lifecycle.finetune import finetune
from bertcli.lifecycle.make_pretraining_data import make_pretraining_data
from bertcli.lifecycle.pretrain import pretrain
from bertcli.models.dropout import seed_dropout
from bertcli.models.encoder import use_gradient_checkpointing
from bertcli.models.packed import PACKED
from tests.models.test_dropout import MASKS
from tests.models.test_packed import CONFIG, make_batch
from tests.support import with_loss
from tests.training.test_loop import SHORT, assert_same_bits


def passed(checkpoints: bool, implementation: str, dtype: torch.dtype) -> tuple[dict[str, torch.Tensor], int]:
    """The losses and gradients of one step with dropout, and how many values the backward pass was kept waiting with."""
    torch.manual_seed(0)
    model = BertForPreTraining(
        BertConfig(
            **{**CONFIG, "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1, "num_hidden_layers": 4},
            attn_implementation=implementation,
        )
    ).to(dtype)
    if checkpoints:
        use_gradient_checkpointing(model)
    packed = with_loss(model, "pretrain").train()
    batch, _ = make_batch(MASKS, {})
    kept = 0

    def keep(value: torch.Tensor) -> torch.Tensor:
        nonlocal kept
        kept += value.numel() * (not isinstance(value, torch.nn.Parameter))
        return value

    seed_dropout(5)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda value: value):
        losses = packed(batch)
    sum(losses.values()).backward()
    gradients = {name: each.grad for name, each in model.named_parameters() if each.grad is not None}
    return {**losses, **gradients}, kept


@pytest.mark.parametrize("kernels", ["on", "off"])
@pytest.mark.parametrize(
    ("implementation", "dtype"), [(PACKED, torch.float32), (PACKED, torch.bfloat16), ("eager", torch.float32)]
)
def test_the_gradients_are_the_same_to_the_bit_with_dropout(
    implementation: str, dtype: torch.dtype, kernels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BERT_KERNELS", kernels)
    (plain, all_kept), (again, few_kept) = (passed(checkpoints, implementation, dtype) for checkpoints in (False, True))
    assert plain.keys() == again.keys()
    assert all(torch.equal(plain[name], again[name]) for name in plain)
    assert few_kept < all_kept / 2


def test_pretraining_and_finetuning_end_with_the_same_weights(at_home: Path, tmp_path: Path) -> None:
    plain, again = (
        pretrain(
            **SHORT,
            layers=3,
            steps=3,
            gradient_checkpointing=given,
            micro_batch_tokens=200,
            out=str(tmp_path / f"{given}"),
        )
        for given in (False, True)
    )
    assert_same_bits(plain.run, again.run)
    assert plain.losses == again.losses
    (tmp_path / "a.csv").write_text("text,label\n" + "the cat sat,x\nthe dog ran,y\n" * 20)
    options = {"from_": plain.run, "max_seq_length": 8, "epochs": 1, "baseline": False}
    plain, again = (
        finetune(str(tmp_path / "a.csv"), **options, gradient_checkpointing=given, out=str(tmp_path / f"fine-{given}"))
        for given in (False, True)
    )
    assert_same_bits(plain.run, again.run)


def test_a_frozen_bert_has_nothing_to_compute_again() -> None:
    with pytest.raises(UserError, match="saves nothing with --frozen"):
        finetune("conll2003", frozen=True, gradient_checkpointing=True, dry_run=True)


@pytest.mark.parametrize("family", ["albert", "xlnet"])
def test_so_do_families_that_compute_their_layers_in_a_way_of_their_own(
    family: str, at_home: Path, tmp_path: Path
) -> None:
    build_vocab("corpus.txt", family=family, vocab_size=120, out=str(tmp_path / "vocab"))
    made = {"family": family, "tokenizer": str(tmp_path / "vocab"), "max_seq_length": 32, "workers": 1}
    make_pretraining_data("corpus.txt", **made, out=str(tmp_path / "data"))
    short = {"size": "tiny", "layers": 3, "data": str(tmp_path / "data"), "steps": 3, "batch_size": 8}
    (tmp_path / "a.csv").write_text("text,label\n" + "the cat sat,x\nthe dog ran,y\n" * 20)
    kept, runs = [], []
    for given in (False, True):
        values = 0

        def keep(value: torch.Tensor) -> torch.Tensor:
            nonlocal values
            values += value.numel() * (not isinstance(value, torch.nn.Parameter))
            return value

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda value: value):
            first = pretrain(**short, gradient_checkpointing=given, out=str(tmp_path / f"pre-{given}"))
        options = {"from_": first.run, "epochs": 1, "baseline": False, "gradient_checkpointing": given}
        second = finetune(str(tmp_path / "a.csv"), **options, out=str(tmp_path / f"fine-{given}"))
        kept, runs = [*kept, values], [*runs, (first.run, second.run)]
    for plain, again in zip(*runs, strict=True):
        assert_same_bits(plain, again)
    assert kept[1] < 0.8 * kept[0]


def test_a_pretraining_of_layers_that_cannot_is_refused_before_anything_is_written(
    at_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BertForPreTraining, "supports_gradient_checkpointing", False)
    for dry_run in (True, False):
        with pytest.raises(UserError, match="cannot be computed again"):
            pretrain(**SHORT, gradient_checkpointing=True, dry_run=dry_run, out=str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_layers_that_cannot_be_computed_again_are_refused() -> None:
    model = BertForPreTraining(BertConfig(**CONFIG))
    model.supports_gradient_checkpointing = False
    with pytest.raises(UserError, match="cannot be computed again"):
        use_gradient_checkpointing(model)
