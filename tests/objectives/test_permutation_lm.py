"""Permutation language modelling: orders equal to those of data_utils.py."""

import gzip
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer, XLNetConfig, XLNetLMHeadModel

from bertcli.data.packing.batches import PackedBatch
from bertcli.data.packing.sequences import Sequences
from bertcli.data.pretraining.shards import load_pretraining_examples
from bertcli.data.text.tokenization import load_tokenizer
from bertcli.errors import Interrupted, UserError
from bertcli.families.xlnet import XLNET
from bertcli.lifecycle.build_vocab import build_vocab
from bertcli.lifecycle.make_pretraining_data import make_pretraining_data
from bertcli.lifecycle.predict import predict
from bertcli.lifecycle.pretrain import pretrain
from bertcli.models.dropout import seed_dropout, set_dropout
from bertcli.models.loading import build_model
from bertcli.models.own.permuted import Predictions
from bertcli.models.own.two_streams import remember
from bertcli.objectives.permutation_lm import BEFORE, PERMUTATION_LM, local_order, orders_of_rows
from bertcli.training.throughput import count_flops, training_flops
from tests.conftest import write_corpus
from tests.training.test_loop import assert_same_bits, stop_after

GOLDENS = Path(__file__).parents[1] / "goldens" / "xlnet"
CLS, SEP = 3, 4
ORDERS = json.loads(gzip.decompress((GOLDENS / "local_perm.json.gz").read_bytes()))["cases"]


@pytest.mark.parametrize("case", ORDERS, ids=lambda case: str(case["perm_size"]))
def test_orders_equal_the_original(case: dict[str, Any]) -> None:
    ids, is_masked = np.array([case["input"]]), np.array([case["is_masked"]], bool)
    own, ranks, is_target = local_order(np.isin(ids, (CLS, SEP)), is_masked, np.array([case["order"]]))
    hidden = (own[0, :, None] <= ranks[0]).astype(int)
    assert ["".join(map(str, row)) for row in hidden.tolist()] == case["perm_mask_rows"]
    assert is_target[0].astype(int).tolist() == case["target_mask"]


def test_the_first_half_sees_nothing_of_the_second_which_sees_all_of_the_first() -> None:
    ids = np.arange(9, 25)[None].repeat(3, 0)
    ids[:, [11, 14]], ids[:, 15] = SEP, CLS
    is_masked, rows = np.arange(16) % 3 == 0, np.array([4, 9, 2])
    is_special = np.isin(ids, (SEP, CLS))
    own, ranks, _ = orders_of_rows(is_special, is_masked[None].repeat(3, 0), rows, key=5)
    hidden = own[:, :, None] <= ranks[:, None]
    assert hidden[:, :8, 8:].all()
    assert not hidden[:, 8:, :8].any()
    assert hidden[:, np.arange(16), np.arange(16)][:, is_masked & (ids[0] > CLS + 1)].all()
    alone, *_ = orders_of_rows(is_special[:1], is_masked[None], rows[1:2], key=5)
    assert (alone == own[1]).all()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A working folder with an XLNet vocabulary and data."""
    path, before = tmp_path_factory.mktemp("xlnet"), Path.cwd()
    os.chdir(path)
    write_corpus(path / "corpus.txt")
    build_vocab("corpus.txt", family="xlnet", vocab_size=120)
    make_pretraining_data("corpus.txt", family="xlnet", max_seq_length=32, dupe_factor=1, workers=1)
    yield path
    os.chdir(before)


@pytest.fixture(scope="module")
def run(folder: Path) -> Path:
    """A pre-trained model."""
    return Path(pretrain(size="tiny", steps=4, batch_size=8).run)


def packed(folder: Path, rows: list[int], key: int = 3) -> PackedBatch:
    return PERMUTATION_LM.pack(load_pretraining_examples(folder / "pretraining-data", 0), np.array(rows), key)


def test_a_text_is_read_in_both_directions_and_rows_continue_each_other(folder: Path) -> None:
    examples = load_pretraining_examples(folder / "pretraining-data", 0)
    tokenizer, ids = examples.tokenizer, examples.take(np.arange(len(examples))).input_ids.reshape(-1, 32)
    lines = (folder / "corpus.txt").read_text().strip().split("\n")
    stream = [id_ for line in lines for id_ in (tokenizer.encode_ids([line])[0] or [tokenizer.vocab["<eod>"]])]
    stream.append(tokenizer.vocab["<eod>"])
    for rows, text in ((ids[0::2], stream), (ids[1::2], stream[::-1])):
        assert rows[:, :16].ravel().tolist() == text[: 16 * len(rows)]
    assert (ids[:, -2:] == [tokenizer.special("sep"), tokenizer.special("cls")]).all()


def test_loss_and_gradients_equal_those_of_transformers(folder: Path) -> None:
    examples = load_pretraining_examples(folder / "pretraining-data", 0)
    new = build_model(PERMUTATION_LM.auto_class(), XLNET, "tiny", examples.tokenizer, {"initializer_range": 0.1}, 0)
    set_dropout(ours := PERMUTATION_LM.with_loss(new), 0.0)
    theirs = XLNetLMHeadModel(XLNetConfig(**{**new.config.to_dict(), "bi_data": True, "dropout": 0.0}))
    theirs.load_state_dict(new.state_dict())
    rows = [4, 0, 6, 1, 9, 3]  # transformers reads the second half of a batch backwards
    batch = packed(folder, rows)
    loss = ours(batch)["masked_lm"] / batch.counts["masked_lm"]
    labels, shape = batch.labels, (len(rows), 32)
    own, ranks = (labels[name].view(shape) for name in ("own_ranks", "ranks"))
    is_target = (
        torch.zeros(shape[0] * 32, dtype=torch.bool).index_fill(0, labels["masked_lm_positions"], True).view(shape)
    )
    expected = theirs(
        batch.input_ids.view(shape),
        token_type_ids=batch.token_type_ids.view(shape),
        perm_mask=(own[:, :, None] <= ranks[:, None]).float(),
        target_mapping=torch.eye(32).expand(len(rows), -1, -1),
        labels=batch.input_ids.view(shape).masked_fill(~is_target, -100),
    ).loss
    assert loss.item() == pytest.approx(expected.item(), abs=1e-5)
    loss.backward()
    expected.backward()
    for name, weight in theirs.named_parameters():
        torch.testing.assert_close(ours.model.get_parameter(name).grad, weight.grad, atol=1e-5, rtol=1e-4, msg=name)


def test_the_flops_of_a_step_are_those_of_its_products(folder: Path) -> None:
    examples = load_pretraining_examples(folder / "pretraining-data", 0)
    model = build_model(PERMUTATION_LM.auto_class(), XLNET, "mini", examples.tokenizer, {"initializer_range": 0.1}, 0)
    batch = packed(folder, list(range(40)))
    counted = count_flops(PERMUTATION_LM.with_loss(model), batch)
    assert training_flops(model, batch) == pytest.approx(counted, rel=0.05)


def test_memory_is_what_the_row_before_was_read_as(folder: Path) -> None:
    """Of the last 12 tokens that it has for the next; the first rows of streams, 0 and 1, remember zeros."""
    examples = load_pretraining_examples(folder / "pretraining-data", 0)
    model = build_model(PERMUTATION_LM.auto_class(), XLNET, "tiny", examples.tokenizer, {"initializer_range": 0.1}, 0)
    model.eval()
    remembering = replace(PERMUTATION_LM, memory=12)
    rows = [0, 6, 7]
    batch, whole = (remembering.pack(examples, np.array(each), 3) for each in (rows, [4, 5]))
    logits = remembering.outputs(model, batch)["masked_lm"]
    assert not torch.allclose(logits, PERMUTATION_LM.outputs(model, packed(folder, rows))["masked_lm"], atol=1e-3)
    order = Predictions(
        whole.labels["masked_lm_positions"],
        whole.position_ids[whole.labels["masked_lm_positions"]],
        tuple(whole.labels["predictions"].tolist()),
        whole.labels["own_ranks"],
        whole.labels["ranks"],
    )
    directions, sequences = whole.labels["directions"], Sequences(whole.lengths, 0, torch.device("cpu"))
    assert directions.tolist() == [0, 1]
    layers = model.base_model.layers(whole.input_ids, whole.token_type_ids, sequences, order, (), directions)
    before = remember(model, batch, tuple(batch.labels[name] for name in BEFORE), batch.labels["directions"])
    for number, states in enumerate(before):
        torch.testing.assert_close(states[1:], layers[number][:64].view(2, 32, -1)[:, :16], atol=1e-5, rtol=1e-4)
    model.train()
    seed_dropout(7)
    remembering.outputs(model, batch)["masked_lm"].sum().backward()


def test_dropout_and_orders_do_not_depend_on_the_batch(folder: Path) -> None:
    examples = load_pretraining_examples(folder / "pretraining-data", 0)
    model = build_model(PERMUTATION_LM.auto_class(), XLNET, "tiny", examples.tokenizer, {}, 0)
    training = PERMUTATION_LM.with_loss(model).train()
    sums = []
    for parts in ([[3, 8, 2]], [[8], [3], [2]], [[2, 3], [8]]):
        sums.append(0.0)
        for rows in parts:
            seed_dropout(7)
            sums[-1] += training(packed(folder, rows))["masked_lm"].item()
    assert sums == pytest.approx([sums[0]] * 3, rel=1e-5)


def test_dynamic_masks_are_as_many_and_change_with_the_step(folder: Path) -> None:
    out = str(folder / "dynamic")
    options = {"max_seq_length": 32, "dupe_factor": 1, "workers": 1, "out": out}
    make_pretraining_data("corpus.txt", family="xlnet", masking="dynamic", **options)
    examples = load_pretraining_examples(out, 0)
    batches = [PERMUTATION_LM.pack(examples, np.array(rows), key) for rows, key in (([5, 2], 0), ([5], 0), ([5, 2], 1))]
    for batch in batches:
        assert all(3 <= count <= 5 for count in batch.labels["predictions"].tolist())  # 5 with <sep> and <cls>
    first = batches[0].labels["masked_lm_positions"]
    assert batches[1].labels["masked_lm_positions"].tolist() == first[first < 32].tolist()
    assert batches[2].labels["masked_lm_positions"].tolist() != first.tolist()


def test_a_run_opens_in_transformers_and_resumes_to_the_same_bits(
    folder: Path, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, info = XLNetLMHeadModel.from_pretrained(run / "model", output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    text = "the cat sat on the green mat"
    (ids,) = load_tokenizer(run / "model").encode_ids([text])
    tokenizer = AutoTokenizer.from_pretrained(run / "model")
    assert tokenizer(text)["input_ids"] == [*ids, tokenizer.sep_token_id, tokenizer.cls_token_id]
    assert len(predict("the [MASK] sat", model=str(run)).records[0]["fills"]) == 5
    stop_after(monkeypatch, 2)
    with pytest.raises(Interrupted):
        pretrain(size="tiny", steps=4, batch_size=8, out="runs/stopped")
    monkeypatch.undo()
    pretrain(size="tiny", steps=4, batch_size=8, out="runs/stopped", resume=True)
    assert_same_bits(run, "runs/stopped")


def test_options_that_mean_nothing_are_refused(folder: Path) -> None:
    with pytest.raises(UserError, match="--whole-word-mask"):
        make_pretraining_data("corpus.txt", family="xlnet", whole_word_mask=True, out="other")
    with pytest.raises(UserError, match="--memory 17"):
        pretrain(size="tiny", memory=17, steps=1)
    with pytest.raises(UserError, match="--span-mask"):
        pretrain(size="tiny", span_mask=True, steps=1)
