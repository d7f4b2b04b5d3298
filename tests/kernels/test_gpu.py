"""What our kernels do on a GPU is what stock layers give; where there is no GPU, Triton's interpreter runs them."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForPreTraining

from bertcli.data.packing.batches import PackedBatch
from bertcli.data.packing.sequences import Sequences
from bertcli.kernels import cpu, gpu, switched_off
from bertcli.models import cross_entropy, dropout
from bertcli.models.dropout import Mask, next_mask, seed_dropout
from bertcli.models.heads import means_of
from bertcli.models.own import two_streams
from bertcli.models.packed import PACKED, attention
from bertcli.models.working_copy import _Embedding
from bertcli.training.device import resolve_precision
from tests.support import with_loss

LogCapture = pytest.LogCaptureFixture
VOCABULARY = 70  # which no power of two divides
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
HALF = torch.bfloat16 if DEVICE.type == "cuda" else torch.float32  # which alone the interpreter computes right
needs_gpu = pytest.mark.skipif(DEVICE.type != "cuda", reason="needs a GPU")


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything as on a GPU."""
    pytest.importorskip("triton", reason="needs Triton")
    if DEVICE.type == "cpu":
        for name in ("is_on_gpu", "fits", "is_half_on_gpu"):
            monkeypatch.setattr(gpu, name, lambda _: True)
        for name in ("fits", "fits_many"):
            monkeypatch.setattr(cpu, name, lambda *_: False)


def make_model(dropout: float = 0.0, attention_dropout: float = 0.0) -> BertForPreTraining:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=48,
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
    model: BertForPreTraining, lengths: tuple[int, ...], device: torch.device = DEVICE
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    model.to(device)
    losses = torch.stack([*with_loss(model, "pretrain").train()(make_batch(lengths).to(device)).values()])
    gradients = torch.autograd.grad(losses.sum(), list(model.parameters()))
    return losses.cpu(), [gradient.cpu() for gradient in gradients]


def test_a_step_as_a_gpu_makes_it_gives_the_losses_and_gradients_of_a_cpu(request: pytest.FixtureRequest) -> None:
    lengths = (20, 7)
    seed_dropout(3)
    losses, gradients = losses_and_gradients(make_model(0.2, 0.2), lengths, torch.device("cpu"))
    request.getfixturevalue("kernels")
    seed_dropout(3)
    found, given = losses_and_gradients(make_model(0.2, 0.2).to(HALF), lengths)
    assert found.dtype == torch.float32
    tolerance = {"rtol": 1e-4, "atol": 1e-5} if torch.float32 == HALF else {"rtol": 0.05, "atol": 0.3}
    torch.testing.assert_close(found, losses, rtol=tolerance["rtol"], atol=0)
    for mine, theirs in zip(given, gradients, strict=True):
        torch.testing.assert_close(mine.float(), theirs, **tolerance)


@pytest.mark.usefixtures("kernels")
def test_a_mask_is_drawn_by_the_key_of_a_step() -> None:
    model = make_model(0.5, 0.5).to(HALF)
    found = []
    for key in (1, 1, 2):
        seed_dropout(key)
        found.append(losses_and_gradients(model, (6, 2))[0])
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


def mask_of(rate: float, rows: int) -> Mask:
    seed_dropout(7)
    return next_mask(rate, rows)


def same(found: torch.Tensor, wanted: torch.Tensor, inputs: list[torch.Tensor], tolerance: float = 1e-5) -> None:
    """Assert that results, and the gradients of the inputs by random ones, agree in norm."""
    given = torch.randn(wanted.shape, device=wanted.device)
    mine = torch.autograd.grad(found, inputs, given.to(found.dtype))
    theirs = torch.autograd.grad(wanted, inputs, given.to(wanted.dtype))
    for one, other in ((found, wanted), *zip(mine, theirs, strict=True)):
        assert one.dtype == other.dtype
        assert float((one.float() - other.float()).norm()) <= tolerance * float(other.float().norm())


def random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, device=DEVICE, requires_grad=True)


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("shape", [(5, 32), (3, 7, 45), (2, 300)])
def test_dropout_drops_what_its_plain_twin_drops(shape: tuple[int, ...]) -> None:
    values = random(*shape)
    mask = mask_of(0.3, values[..., 0].numel())
    same(dropout.drop(values, mask), dropout.drop.__wrapped__(values, mask), [values])


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("rate", [0.0, 0.3])
@pytest.mark.parametrize("shape", [(3, 64), (20, 96), (35, 5), (0, 8)])
def test_a_sum_is_dropped_and_normed_as_by_its_plain_twin(
    shape: tuple[int, int], rate: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "PROGRAMS", 32)  # fewer than rows
    norm = torch.nn.LayerNorm(shape[1], 1e-3, device=DEVICE)
    torch.nn.init.normal_(norm.weight)
    inputs, mask = [random(*shape), random(*shape)], mask_of(rate, shape[0])
    wanted = two_streams.add_and_norm.__wrapped__(*inputs, norm, mask)
    same(two_streams.add_and_norm(*inputs, norm, mask), wanted, [*inputs, norm.weight, norm.bias])


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("padding", [0, 10])  # of each row, which is not read
@pytest.mark.parametrize("shape", [(6, 70), (3, 9000), (0, 70)])
def test_cross_entropy_is_that_of_its_plain_twin(shape: tuple[int, int], padding: int) -> None:
    logits = random(shape[0], shape[1] + padding)
    labels = torch.arange(shape[0], device=DEVICE) * 11 % shape[1]
    found = cross_entropy.vocabulary_cross_entropy((logits * 3)[:, : shape[1]], labels)
    (mine,) = torch.autograd.grad(found * 2, logits)
    with switched_off():
        wanted = cross_entropy.vocabulary_cross_entropy((logits * 3)[:, : shape[1]], labels)
        (theirs,) = torch.autograd.grad(wanted * 2, logits)
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(mine, theirs)


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(("lengths", "idle", "size"), [((70, 33, 1), 9, 16), ((40, 40), 0, 64)])
def test_attention_drops_the_weights_that_its_plain_twin_drops(
    lengths: tuple[int, ...], idle: int, size: int, is_causal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "SHAPES", dict.fromkeys(gpu.SHAPES, (64, 16, 4, 2)))
    sequences = Sequences(lengths, idle, DEVICE, is_causal=is_causal)
    tokens = sum(lengths) + idle
    states, mask = random(tokens, 3, 2, size).to(HALF).detach().requires_grad_(), mask_of(0.25, tokens)
    found = gpu.attention(sequences, mask, size**-0.5, states)
    wanted = attention.__wrapped__(sequences, mask, size**-0.5, states.float())
    assert not found[tokens - idle :].any()
    if idle:
        wanted = torch.cat([wanted[:-idle], wanted[-idle:] * 0])
    given = torch.randn(found.shape, device=DEVICE).to(HALF)
    (mine,), (theirs,) = (torch.autograd.grad(each, states, given.to(each.dtype)) for each in (found, wanted))
    tolerance = 1e-5 if torch.float32 == HALF else 2e-2
    for one, other in ((found, wanted), (mine, theirs)):
        assert float((one.float() - other.float()).norm()) <= tolerance * float(other.float().norm())
    apart = [each.detach().clone().requires_grad_() for each in states.split(1, 1)]  # as layers that join no products
    torch.testing.assert_close(gpu.attention(sequences, mask, size**-0.5, *apart), found)


@pytest.fixture
def asked_anew() -> Iterator[None]:
    """Whether there is a compiler is asked in the test, and again after it."""
    gpu._has_compiler.cache_clear()
    yield
    gpu._has_compiler.cache_clear()


@pytest.mark.usefixtures("asked_anew")
def test_without_triton_layers_run_as_they_are_which_is_said(monkeypatch: pytest.MonkeyPatch, said: LogCapture) -> None:
    monkeypatch.setattr(gpu, "find_spec", lambda _: None)
    monkeypatch.setattr(gpu, "_is_new", lambda: True)
    assert not gpu._has_compiler()
    assert not gpu._has_compiler()
    assert said.text.count("Triton") == 1


@pytest.mark.usefixtures("asked_anew")
def test_an_old_gpu_gets_no_kernels_and_no_bfloat16_that_it_would_emulate(
    monkeypatch: pytest.MonkeyPatch, said: LogCapture
) -> None:
    monkeypatch.setattr(gpu, "_is_new", lambda: False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: including_emulation)
    assert not gpu._has_compiler()
    assert not said.text
    assert resolve_precision("auto") == "float32"


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


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_gpu)])
def test_sums_are_made_in_the_same_order_each_time(device: str) -> None:
    draw = torch.Generator().manual_seed(0)
    ids = torch.randint(7, (20_000,), generator=draw).to(device)
    lengths = [3000, 2000, 1000, *[100] * 140]
    given = torch.randn(20_000, 64, generator=draw).to(device)
    tables = torch.nn.ModuleList([_Embedding(7, 64), _Embedding(7, 64)]).to(device, torch.bfloat16)
    for table in tables:
        table(ids).backward(given.bfloat16())
    assert torch.equal(*(table.weight.grad for table in tables))
    wanted = torch.zeros(7, 64, device=device, dtype=torch.float64).index_add_(0, ids, given.bfloat16().double())
    torch.testing.assert_close(tables[0].weight.grad.double(), wanted, rtol=1e-2, atol=1e-2)
    assert torch.equal(means_of(given, lengths), means_of(given, lengths))
    means = torch.stack([part.mean(0) for part in given.split(lengths)])
    torch.testing.assert_close(means_of(given, lengths), means, rtol=1e-4, atol=1e-5)


@needs_gpu
def test_flash_attention_gives_what_its_plain_twin_gives() -> None:
    sequences = Sequences((40, 17, 9), 62, torch.device("cuda"))
    states = torch.randn(128, 3, 4, 64, device="cuda", dtype=torch.bfloat16)
    found = gpu.attention(sequences, next_mask(0.0, 128), 0.125, states)[:66].float()
    wanted = attention.__wrapped__(sequences, next_mask(0.0, 128), 0.125, states.float())[:66]
    torch.testing.assert_close(found, wanted, atol=2e-2, rtol=2e-2)
