"""Left-to-right language modelling is what transformers' BertLMHeadModel computes, and no token sees a later one."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForCausalLM, BertLMHeadModel

from bertcli.data.packing.batches import longest_first
from bertcli.data.pretraining.shards import load_pretraining_examples
from bertcli.errors import Interrupted, UserError
from bertcli.lifecycle.pretrain import pretrain
from bertcli.objectives.left_to_right import LEFT_TO_RIGHT
from bertcli.objectives.objective import ObjectiveExamples
from tests.models.test_packed import CONFIG, PACKED, BertConfig, encode, pack
from tests.support import take_kernels
from tests.training.test_loop import assert_same_bits, stop_after

TINY = {"size": "tiny", "batch_size": 8, "objective": "left-to-right", "precision": "float32"}


@pytest.fixture(scope="module")
def run(home: Path) -> Path:
    out = home / "runs-of-objectives" / "left-to-right"
    data = str(home / "pretraining-data")
    return Path(pretrain(**TINY, data=data, steps=12, learning_rate=1e-2, out=str(out)).run)


def test_losses_equal_those_of_transformers_on_padded_batches(home: Path, run: Path) -> None:
    """The data are pairs with static masks: the pairs stay, the masks are undone."""
    examples = load_pretraining_examples(home / "pretraining-data", 0)
    batch = ObjectiveExamples(LEFT_TO_RIGHT, examples).pack(
        longest_first(np.array([3, 0, 11, 40]), examples.lengths), 7
    )
    theirs, info = AutoModelForCausalLM.from_pretrained(run / "model", output_loading_info=True)
    assert type(theirs) is BertLMHeadModel
    assert theirs.config.is_decoder
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    ids, types = (list(torch.split(each, batch.lengths)) for each in (batch.input_ids, batch.token_type_ids))
    assert not any(examples.tokenizer.special("mask") in row for row in ids)
    padded = {"input_ids": pad_sequence(ids, True), "token_type_ids": pad_sequence(types, True)}
    is_token = pad_sequence([torch.ones_like(row) for row in ids], True)
    labels = padded["input_ids"].masked_fill(is_token == 0, -100)
    wanted = theirs(**padded, attention_mask=is_token, labels=labels).loss
    wanted.backward()
    ours = LEFT_TO_RIGHT.auto_class().from_pretrained(run / "model", attn_implementation=PACKED).eval()
    sums = LEFT_TO_RIGHT.with_loss(ours)(batch)
    assert batch.counts == {"next_token": len(batch.input_ids) - 4}
    loss = sums["next_token"] / batch.counts["next_token"]
    loss.backward()
    torch.testing.assert_close(loss, wanted, atol=1e-5, rtol=0)
    for (name, own), other in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(own.grad, other.grad, atol=1e-5, rtol=1e-4, msg=name)


@settings(max_examples=30)
@given(
    st.lists(st.integers(1, 24), min_size=1, max_size=6),
    st.data(),
    st.booleans(),
    st.booleans(),
    st.sampled_from([torch.float32, torch.bfloat16]),
)
def test_a_later_token_never_changes_an_earlier_hidden_state(
    lengths: list[int], data: st.DataObject, has_kernels: bool, has_gradient: bool, dtype: torch.dtype
) -> None:
    lengths = sorted(lengths, reverse=True)
    place = data.draw(st.integers(0, sum(lengths) - 1))
    with pytest.MonkeyPatch.context() as patch, torch.set_grad_enabled(has_gradient):
        patch.setenv("BERT_KERNELS", "on" if has_kernels else "off")
        take_kernels(patch)
        torch.manual_seed(0)
        model = BertLMHeadModel(BertConfig(**CONFIG, is_decoder=True, attn_implementation=PACKED)).to(dtype)
        LEFT_TO_RIGHT.with_loss(model).eval()
        ids = np.random.default_rng(len(lengths)).integers(1, 49, sum(lengths))
        other = ids.copy()
        other[place] += 1
        found, changed = (
            encode(model, pack(each, np.zeros_like(ids), np.array(lengths), np.arange(len(lengths))))
            for each in (ids, other)
        )
    end = next(end for end in np.cumsum(lengths) if place < end)
    differs = (found != changed).any(1)[: sum(lengths)]
    assert not differs[:place].any()
    assert not differs[end:].any()
    assert differs[place]


def test_a_run_is_resumed_to_the_bit(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = {**TINY, "data": str(home / "pretraining-data"), "steps": 4, "save_minutes": 0}
    whole = pretrain(**request, out=str(tmp_path / "whole"))
    with monkeypatch.context() as patch:
        stop_after(patch, 2)
        with pytest.raises(Interrupted):
            pretrain(**request, out=str(tmp_path / "part"))
    part = pretrain(resume=True, out=str(tmp_path / "part"))
    assert_same_bits(whole.run, part.run)
    assert part.metrics == whole.metrics


def test_the_directions_of_a_model_and_of_an_objective_are_the_same(home: Path, run: Path, tmp_path: Path) -> None:
    data = str(home / "pretraining-data")
    with pytest.raises(UserError, match="cannot be trained by --objective mlm"):
        pretrain(from_=str(run), objective="mlm", data=data, out=str(tmp_path / "run"))
    found = pretrain(**TINY, from_=str(run), data=data, steps=1, learning_rate=0.0, out=str(tmp_path / "run"))
    assert_same_bits(run, found.run)
    assert set(found.metrics) >= {"next_token_loss", "next_token_accuracy", "most_frequent_token_accuracy"}
