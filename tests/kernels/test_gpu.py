"""What is done on a GPU alone gives what stock layers give; shown on a CPU, with all of it but the compiler's kernels."""

import numpy as np
import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend
from transformers import BertConfig, BertForPreTraining

from bertcli.data.packing.batches import PackedBatch
from bertcli.data.packing.sequences import Sequences
from bertcli.kernels import cpu, gpu
from bertcli.models.dropout import next_mask, seed_dropout
from bertcli.models.packed import PACKED, attention
from tests.support import with_loss

LogCapture = pytest.LogCaptureFixture
VOCABULARY = 70  # which no power of two divides


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> CompileCounterWithBackend:
    """Everything as on a GPU: one that compiles, counting for how many graphs it is asked."""
    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")
    monkeypatch.setattr(gpu, "is_on_gpu", lambda _: True)
    monkeypatch.setattr(gpu, "compiles", lambda _: True)
    monkeypatch.setattr(cpu, "fits", lambda *_: False)
    monkeypatch.setattr(gpu, "BACKEND", counter)
    return counter


def make_model(dropout: float = 0.0, attention_dropout: float = 0.0) -> BertForPreTraining:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=attention_dropout,
        attn_implementation=PACKED,
    )
    return BertForPreTraining(config)


def make_batch(lengths: tuple[int, ...]) -> PackedBatch:
    tokens = sum(lengths)
    ids = torch.arange(tokens) % VOCABULARY
    masked = torch.arange(1, tokens, 5)
    labels = {
        "masked_lm_positions": masked,
        "masked_lm_ids": ids[masked] * 3 % VOCABULARY,
        "next_sentence_labels": torch.arange(len(lengths)) % 2,
    }
    positions = torch.cat([torch.arange(length) for length in lengths])
    return PackedBatch(ids, positions % 2, positions, lengths, rows=np.arange(len(lengths)), labels=labels)


def losses_and_gradients(
    model: BertForPreTraining, lengths: tuple[int, ...]
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    losses = torch.stack([*with_loss(model, "pretrain").train()(make_batch(lengths)).values()])
    return losses, list(torch.autograd.grad(losses.sum(), list(model.parameters())))


@pytest.mark.parametrize(
    ("dropout", "dtype"),
    [
        (0.0, torch.bfloat16),
        (0.2, torch.float32),
        pytest.param(0.0, torch.float32, marks=pytest.mark.torture),
        pytest.param(0.2, torch.bfloat16, marks=pytest.mark.torture),
    ],
)
def test_a_step_as_a_gpu_makes_it_gives_the_losses_and_gradients_of_a_cpu(
    dropout: float, dtype: torch.dtype, request: pytest.FixtureRequest
) -> None:
    many = [(31, 20, 7), (64, 3), (12, 12, 12, 12)]
    seed_dropout(3)
    wanted = [losses_and_gradients(make_model(dropout, dropout), lengths) for lengths in many]
    counter = request.getfixturevalue("compiler")
    model = make_model(dropout, dropout).to(dtype)
    seed_dropout(3)
    tolerance = {"rtol": 1e-4, "atol": 1e-5} if dtype == torch.float32 else {"rtol": 0.05, "atol": 0.3}
    for lengths, (losses, gradients) in zip(many, wanted, strict=True):
        found, given = losses_and_gradients(model, lengths)
        assert found.dtype == torch.float32
        torch.testing.assert_close(found, losses, rtol=tolerance["rtol"], atol=0)
        for mine, theirs in zip(given, gradients, strict=True):
            torch.testing.assert_close(mine.float(), theirs, **tolerance)
    # GELU; the sums of the attention's output and of the layer's, from 32 and 64; cross entropy, there and back; and dropout,
    # whose columns are or are not as many as one hash serves.
    assert counter.frame_count == (9 if dropout else 5)


def test_what_is_compiled_drops_by_the_key_of_a_step_and_predicts_whole(compiler: CompileCounterWithBackend) -> None:
    model = make_model(dropout=0.5)
    found = []
    for key in (1, 1, 2):
        seed_dropout(key)
        found.append(losses_and_gradients(model, (31, 20, 7))[0])
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])
    graphs = compiler.frame_count
    objective = with_loss(model.eval(), "pretrain")
    outputs = objective.outputs(make_batch((31, 20, 7)))
    assert outputs["masked_lm"].shape == (12, VOCABULARY)
    assert compiler.frame_count == graphs  # no kernels are made for a pass without a gradient


def test_for_want_of_a_compiler_layers_run_as_they_are_which_is_said(
    monkeypatch: pytest.MonkeyPatch, said: LogCapture
) -> None:
    monkeypatch.setattr(gpu, "find_spec", lambda _: None)
    gpu._has_compiler.cache_clear()
    try:
        assert not gpu._has_compiler()
        assert not gpu._has_compiler()
    finally:
        gpu._has_compiler.cache_clear()
    assert said.text.count("Triton") == 1


def test_flash_attention_takes_the_whole_batch_and_the_boundaries_of_its_sequences(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sequences = Sequences((17, 9), 38, torch.device("cpu"))
    assert (sequences.boundaries.tolist(), sequences.boundaries.dtype) == ([0, 17, 26, 64], torch.int32)
    assert sequences.longest == 38
    assert Sequences((17, 9), 0, torch.device("cpu")).boundaries.tolist() == [0, 17, 26]
    # Nothing is computed on this device, but the shapes, and whether there is a gradient.
    monkeypatch.setattr(gpu, "is_half_on_gpu", lambda _: True)
    states = torch.empty(64, 3, 4, 8, dtype=torch.bfloat16, device="meta", requires_grad=True)
    on_meta = Sequences((17, 9), 38, torch.device("meta"))
    context = attention(on_meta, next_mask(0.0, 64), 0.35, states)
    context.sum().backward()
    assert context.shape == (64, 4, 8)
    assert states.grad is not None


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_flash_attention_gives_what_its_plain_twin_gives() -> None:
    sequences = Sequences((40, 17, 9), 62, torch.device("cuda"))
    states = torch.randn(128, 3, 4, 64, device="cuda", dtype=torch.bfloat16)
    found = gpu.attention(sequences, next_mask(0.0, 128), 0.125, states)[:66].float()
    wanted = attention.__wrapped__(sequences, next_mask(0.0, 128), 0.125, states.float())[:66]
    torch.testing.assert_close(found, wanted, atol=2e-2, rtol=2e-2)
