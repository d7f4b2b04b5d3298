"""A CPU's kernels give what torch gives, forward and backward, in either precision."""

import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, layer_norm, linear
from transformers import RobertaConfig, RobertaForMaskedLM

from bertcli.kernels import compiled
from bertcli.kernels.compiled import _array
from bertcli.kernels.cpu import MANY, fits, fits_tiles, inference_kernels, kernels
from bertcli.kernels.layers import Intermediate, Output, SelfAttention, _AddAndNorm, _Gelu, fuse
from bertcli.kernels.products import product
from bertcli.models.dropout import Dropout, dropout, next_mask, seed_dropout
from bertcli.models.packed import PACKED, Sequences, packed_attention
from bertcli.models.working_copy import WorkingCopy
from bertcli.training.optimizer import make_optimizer

ROOT = Path(__file__).parents[2]
ROWS, COLUMNS = 77, 51  # neither a multiple of a block nor of a vector
HAS_TILES = fits_tiles(torch.empty(MANY, 3, 1, 32, dtype=torch.bfloat16))
NEEDS_TILES = pytest.mark.skipif(not HAS_TILES, reason="needs a CPU with matrix units (AMX)")
PRECISIONS = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])


def random(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).to(dtype).requires_grad_()


def exactly(*tensors: Tensor) -> list[Tensor]:
    """The same numbers in float64."""
    return [tensor.detach().double().requires_grad_() for tensor in tensors]


def assert_same(found: list[Tensor], wanted: list[Tensor], dtype: torch.dtype) -> None:
    """Equal but for the rounding of what was written; sums over rows add roundings up."""
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == dtype
        bound = 2e-6 if dtype == torch.float32 else 2**-8
        assert (one.double() - other).norm() <= bound * other.norm() + bound * 1e-3


def mask_of(mask: tuple, rows: int, columns: int) -> Tensor:
    """What a mask multiplies each element by."""
    factors = torch.empty(rows, columns)
    kernels().drop(torch.ones(rows, columns), factors, mask)
    return factors.double()


@PRECISIONS
@pytest.mark.parametrize("is_tanh", [False, True])
def test_gelu_of_a_product_and_its_bias(dtype: torch.dtype, is_tanh: bool) -> None:
    given = random(ROWS, COLUMNS, dtype=dtype), random(COLUMNS, dtype=dtype)
    product, bias = exactly(*given)
    wanted = gelu(product + bias, approximate="tanh" if is_tanh else "none")
    found = _Gelu.apply(*given, is_tanh)
    towards = random(ROWS, COLUMNS, dtype=dtype).detach()
    found.backward(towards)
    wanted.backward(towards.double())
    assert_same([found, *(each.grad for each in given)], [wanted, product.grad, bias.grad], dtype)


@pytest.mark.parametrize("is_tanh", [False, True])
def test_gelu_has_no_bounds_and_hides_no_nan(is_tanh: bool) -> None:
    values = torch.tensor([[-torch.inf, -1e4, -100.0, -9.0, 0.0, 9.0, 100.0, 1e4, torch.nan]])
    found = _Gelu.apply(values, torch.zeros(9), is_tanh)
    assert found[0, 1:8].tolist() == pytest.approx([0, 0, 0, 0, 9, 100, 1e4], abs=1e-6)
    assert found[0, 8].isnan()


@PRECISIONS
@pytest.mark.parametrize(
    ("tokens", "inputs", "outputs"),
    [(77, 51, 32), (77, 512, 2048), (64, 512, 2048), (64, 2048, 512), (2048, 512, 2048)],
)
def test_the_gradients_of_a_product(dtype: torch.dtype, tokens: int, inputs: int, outputs: int) -> None:
    given = [random(*shape, dtype=dtype) for shape in ((1, tokens, inputs), (outputs, inputs), (outputs,))]
    exact = exactly(*given)
    found, wanted = product(*given), linear(*exact)
    towards = random(1, tokens, outputs, dtype=dtype).detach()
    found.backward(towards)
    wanted.backward(towards.double())
    assert_same([found, *(each.grad for each in given)], [wanted, *(each.grad for each in exact)], dtype)


def test_a_matrix_is_transposed() -> None:
    for shape in ((32, 1), (64, 300), (96, 128)):
        values = random(*shape, dtype=torch.bfloat16).detach()
        found = values.new_empty(shape[::-1])
        kernels().transpose(values, found.view(torch.int64))
        assert torch.equal(found, values.t())


@PRECISIONS
@pytest.mark.parametrize("rate", [0.0, 0.1])
def test_a_sum_with_dropout_and_its_layer_norm(dtype: torch.dtype, rate: float) -> None:
    shapes = (ROWS, COLUMNS), (COLUMNS,), (ROWS, COLUMNS), (COLUMNS,), (COLUMNS,)
    given = [random(*shape, dtype=dtype) for shape in shapes]
    product, bias, residual, weight, shift = exact = exactly(*given)
    mask = next_mask(rate)
    total = (product + bias) * mask_of(mask, ROWS, COLUMNS) + residual
    wanted = layer_norm(total, (COLUMNS,), weight, shift, 1e-12)
    found = _AddAndNorm.apply(mask, 1e-12, *given)
    towards = random(ROWS, COLUMNS, dtype=dtype).detach()
    found.backward(towards)
    wanted.backward(towards.double())
    assert_same([found, *(each.grad for each in given)], [wanted, *(each.grad for each in exact)], dtype)


@PRECISIONS
@pytest.mark.parametrize("is_tanh", [False, True])
def test_without_a_gradient_gelu_is_written_where_it_is_read(dtype: torch.dtype, is_tanh: bool) -> None:
    values = (3 * random(ROWS, COLUMNS, dtype=dtype)).detach()
    wanted = gelu(values.double(), approximate="tanh" if is_tanh else "none")
    inference_kernels().gelu_in_place(values, is_tanh)
    assert_same([values], [wanted], dtype)


@PRECISIONS
def test_without_a_gradient_a_sum_and_its_layer_norm_are_written_where_they_are_read(dtype: torch.dtype) -> None:
    shapes = (ROWS, COLUMNS), (COLUMNS,), (ROWS, COLUMNS), (COLUMNS,), (COLUMNS,)
    given = [random(*shape, dtype=dtype).detach() for shape in shapes]
    product, bias, residual, weight, shift = exactly(*given)
    wanted = layer_norm(product + bias + residual, (COLUMNS,), weight, shift, 1e-12)
    inference_kernels().add_and_norm_in_place(*given, 1e-12)
    assert_same([given[0]], [wanted], dtype)


@NEEDS_TILES
@pytest.mark.parametrize("size", [32, 64, 96])
def test_matrix_units_attend_as_exactly_as_what_they_read_is_rounded(size: int) -> None:
    lengths = (70, 64, 33, 16, 1)
    states = (4 * random(sum(lengths), 3, 2, size)).bfloat16().detach()  # scores of 16 and more: some weights are all
    found = states.new_empty(sum(lengths), 2, size)
    boundaries = torch.tensor((0, *lengths)).cumsum(0, dtype=torch.int32)
    inference_kernels().attention(states, boundaries, 0.125, found)
    for rows, context in zip(states.double().split(lengths), found.split(lengths), strict=True):
        query, key, value = rows.permute(1, 2, 0, 3)
        weights = torch.softmax(query @ key.transpose(-1, -2) * 0.125, -1)
        wanted = (weights @ value).transpose(0, 1)
        assert (context.double() - wanted).norm() <= 2**-8 * wanted.norm()
        assert ((context.double() - wanted).abs() <= 2**-7 * (weights @ value.abs()).transpose(0, 1)).all()


@NEEDS_TILES
def test_matrix_units_hide_no_nan_and_show_it_to_no_other_sequence() -> None:
    states = random(50, 3, 2, 32).bfloat16().detach()
    states[35, 1, 1, 7] = torch.nan
    found = states.new_empty(50, 2, 32)
    inference_kernels().attention(states, torch.tensor([0, 20, 50], dtype=torch.int32), 0.2, found)
    assert found[20:, 1].isnan().all()
    assert found[:, 0].isfinite().all()
    assert found[:20].isfinite().all()


def test_what_is_next_to_nothing_is_not_so_small_that_a_cpu_takes_a_hundred_times_as_long() -> None:
    scores = torch.full((1, 512, 512), -1e4)
    scores[:, :, 0] = 0
    kernels().softmax(scores, torch.tensor([512]), scores, 1.0, next_mask(0.0))
    values = torch.full((1, 9), -40.0)
    inference_kernels().gelu_in_place(values, False)
    assert min(scores.min(), values.abs().min()) >= torch.finfo(torch.float32).tiny


@PRECISIONS
@pytest.mark.parametrize("rate", [0.0, 0.1])
def test_softmax_up_to_each_sequences_length(dtype: torch.dtype, rate: float) -> None:
    heads, size, lengths = 2, 37, torch.tensor([37, 20, 1])
    scores = random(3 * heads, size, size, dtype=dtype)
    (exact,) = exactly(scores)
    there = (torch.arange(size) < lengths[:, None]).repeat_interleave(heads, 0)  # [M, S]
    shares = torch.softmax((exact * 0.25).masked_fill(~there[:, None], -torch.inf), -1) * there[:, :, None]
    mask = next_mask(rate)
    wanted = shares * mask_of(mask, 3 * heads * size, size).view_as(shares)
    weights, read, again = scores.detach().clone(), torch.empty_like(scores), torch.empty_like(scores)
    kernels().softmax(weights, lengths, read if rate else weights, 0.25, mask)
    assert_same([weights, read if rate else weights], [shares, wanted], dtype)
    towards = random(3 * heads, size, size, dtype=dtype).detach()
    wanted.backward(towards.double())
    kernels().softmax_backward(towards, weights, lengths, again, 0.25, mask)
    assert_same([towards], [exact.grad], dtype)
    assert rate == 0 or torch.equal(again, read)


def test_attention_with_a_rate_that_rounds_to_none_drops_nothing() -> None:
    states = [random(1, 2, 30, 8).detach().requires_grad_() for _ in range(3)]
    sequences = Sequences((17, 9), 4, torch.device("cpu"))
    module = nn.Dropout().train()
    found = [
        packed_attention(module, *states, None, sequences=sequences, dropout=r, scaling=0.3)[0] for r in (0.0, 1e-7)
    ]
    assert torch.equal(*found)


@pytest.mark.parametrize("name", ["bert", "adamw"])
@PRECISIONS
def test_an_update_is_torchs_and_the_copy_follows(name: str, dtype: torch.dtype) -> None:
    model = nn.Linear(91, 93)  # of more than a block
    copy = WorkingCopy(model, dtype)
    optimizer, plain = make_optimizer(model, name, copy), nn.Linear(91, 93)
    plain.load_state_dict(model.state_dict())
    reference = torch.optim.AdamW(plain.parameters(), eps=1e-6, weight_decay=0.01)
    for step in range(3):
        copy.module(random(5 + step, 91, dtype=dtype).detach()).square().sum().backward()
        copy.give_gradients(is_last=True)
        gradients = {name: parameter.grad.float().clone() for name, parameter in model.named_parameters()}
        assert model.weight.grad.dtype == dtype  # as they are, for a step of one pass
        norm = torch.stack([each.norm() for each in gradients.values()]).norm()
        torch.testing.assert_close(optimizer.clip_by_global_norm(), norm)
        for group in (*optimizer.param_groups, *reference.param_groups):
            group["lr"] = 1e-3
        for key, parameter in plain.named_parameters():
            parameter.grad = gradients[key] / norm.clamp(min=1)
            if name == "bert":
                reference.state[parameter].update(step=torch.tensor(1e6 + step))
                reference.state[parameter].setdefault("exp_avg", torch.zeros_like(parameter))
                reference.state[parameter].setdefault("exp_avg_sq", torch.zeros_like(parameter))
        reference.step()
        optimizer.step()
        optimizer.zero_grad()
        torch.testing.assert_close(model.weight, plain.weight, atol=1e-6, rtol=1e-5)
        assert torch.equal(copy.module.weight, model.weight.to(dtype))


ROW, IN_PRECISION = object(), object()  # of float32, and of the precision that a model is in
NUMBER = np.float32(0.5)


@pytest.mark.parametrize("columns", [9, 16, 17, 27, 33, 64])
@PRECISIONS
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("_norm", (*[IN_PRECISION] * 3, NUMBER, IN_PRECISION)),
        ("_norm_backward", (*[IN_PRECISION] * 2, (NUMBER, NUMBER), IN_PRECISION, *[ROW] * 3)),
        ("_gelu", (*[IN_PRECISION] * 3, False)),
        ("_gelu", (*[IN_PRECISION] * 3, True)),
        ("_gelu_in_place", (IN_PRECISION, False)),
        ("_exponentials", (ROW, NUMBER)),
        ("_divided", (ROW, NUMBER, IN_PRECISION)),
        ("_times_and_sum", (*[IN_PRECISION] * 3, ROW)),
        ("_sum", (*[IN_PRECISION] * 2, ROW, *[IN_PRECISION] * 2)),
        ("_sum_backward", (*[ROW] * 2, *[IN_PRECISION] * 2, ROW)),
        ("_softmax", (ROW, NUMBER, NUMBER, IN_PRECISION)),
        ("_softmax_backward", (*[IN_PRECISION] * 2, ROW, NUMBER)),
        ("_adam", (ROW, IN_PRECISION, *[ROW] * 2, IN_PRECISION, (NUMBER,) * 9)),
    ],
)
def test_to_the_bit_it_does_not_matter_where_the_rows_lie(
    name: str, arguments: tuple, dtype: torch.dtype, columns: int
) -> None:
    # Where rows lie next to each other, what LLVM made goes on without vectors, which must not add up in another order.
    kinds = [argument for argument in arguments if argument in (ROW, IN_PRECISION)]
    values = random(len(kinds), columns).abs().detach()
    found, chance = set(), np.random.default_rng(0)
    for gap in (0, 4, 16, 1000) * 20:
        room = torch.zeros(len(kinds), columns + gap)
        placed = []
        for kind, place, value in zip(kinds, chance.permutation(len(kinds)), values, strict=True):
            row = room[place] if kind is ROW else room[place].view(dtype)  # of bfloat16, it fills half of its place
            row[:columns] = value
            placed.append(row[:columns])
        given = iter(placed)
        takes = (_array(next(given)) if argument in (ROW, IN_PRECISION) else argument for argument in arguments)
        getattr(inference_kernels() if hasattr(inference_kernels(), name) else kernels(), name)(*takes)
        found.add(b"".join(_array(row).tobytes() for row in placed))
    assert len(found) == 1


class Lies(NamedTuple):
    """An array somewhere, of the precision that a model is in, or of float32 always."""

    shape: tuple[int, ...]
    is_float32: bool = False


# Of one row, for those of more lie apart: what is read and written of a row can be neighbours.
MATRIX, VECTOR, SCORES, FLAT = (Lies(shape) for shape in ((1, 33), (33,), (2, 33, 33), (5000,)))
MASK = (np.uint64(7), 6554, np.float32(10 / 9))
LENGTHS, LABELS = torch.tensor([33, 14]), torch.tensor([5])


@PRECISIONS
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("drop", (MATRIX, MATRIX, MASK)),
        ("gelu", (MATRIX, VECTOR, MATRIX, False)),
        ("gelu_backward", (*[MATRIX] * 3, Lies((1, 33), True))),
        ("gelu_in_place", (MATRIX, True)),
        ("add_and_norm", (MATRIX, VECTOR, MATRIX, *[VECTOR] * 2, *[MATRIX] * 2, Lies((1, 2), True), 1e-12, MASK)),
        (
            "add_and_norm_backward",
            (*[MATRIX] * 2, Lies((1, 2), True), VECTOR, *[MATRIX] * 2, Lies((1, 3, 33), True), MASK),
        ),
        ("add_and_norm_in_place", (MATRIX, VECTOR, MATRIX, *[VECTOR] * 2, 1e-12)),
        ("softmax", (SCORES, LENGTHS, SCORES, 0.25, MASK)),
        ("softmax_backward", (SCORES, SCORES, LENGTHS, SCORES, 0.25, MASK)),
        ("log_sums", (MATRIX, Lies((1,), True))),
        ("cross_entropy_backward", (MATRIX, LABELS, Lies((1,), True), 0.5, MATRIX)),
        ("square_sums", (FLAT, Lies((2,), True))),
        ("adam", (Lies((5000,), True), FLAT, *[Lies((5000,), True)] * 2, FLAT, (NUMBER,) * 9)),
    ],
)
def test_to_the_bit_it_does_not_matter_where_the_arrays_of_a_kernel_lie(
    name: str, arguments: tuple, dtype: torch.dtype
) -> None:
    found, chance = set(), np.random.default_rng(0)
    for gap in (0, 4, 64, 1000) * 20:
        room, first, placed = torch.empty(200_000, dtype=torch.uint8), 4 * chance.integers(16), list(arguments)
        for place in chance.permutation(len(arguments)):
            if isinstance(array := arguments[place], Lies):
                value = random(*array.shape, dtype=torch.float32 if array.is_float32 else dtype).detach().abs()
                bits = room[first : first + value.nbytes].view(value.dtype)
                placed[place] = bits.view(value.shape).copy_(value)
                first += -(-value.nbytes // 4) * 4 + gap
        getattr(inference_kernels() if hasattr(inference_kernels(), name) else kernels(), name)(*placed)
        found.add(b"".join(_array(each).tobytes() for each in placed if isinstance(each, Tensor)))
    assert len(found) == 1


def test_a_kernel_leaves_torchs_threads_and_gives_the_same_with_one() -> None:
    threads = torch.get_num_threads()
    values, found = random(ROWS, COLUMNS).detach(), []
    try:
        for count in (threads, 1):
            torch.set_num_threads(count)
            seed_dropout(7)
            found.append(dropout(values, 0.3, training=True))
            assert torch.get_num_threads() == count
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(*found)


def test_the_layers_of_a_packed_family_are_fused_and_keep_their_weights() -> None:
    config = RobertaConfig(
        vocab_size=30, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32
    )
    for attention, fused in ((PACKED, 2), ("eager", 0)):
        model = RobertaForMaskedLM._from_config(config, attn_implementation=attention)
        names = list(model.state_dict())
        for _ in range(2):
            fuse(model)
        parts = (SelfAttention, Intermediate, Output)
        kinds = [sum(isinstance(module, kind) for module in model.modules()) for kind in parts]
        assert kinds == [fused, fused, 2 * fused]
        assert not [module for module in model.modules() if type(module) is nn.Dropout]
        assert any(isinstance(module, Dropout) for module in model.modules())
        assert list(model.state_dict()) == names


def test_what_kernels_do_not_take_is_torchs() -> None:
    values = random(3, 4)
    assert fits(values, values)
    assert not fits(values, values.bfloat16())
    assert not fits(values.double())
    assert not fits(values.to("meta"))
    with torch.autocast("cpu", torch.bfloat16):
        assert not fits(values)
    assert (dropout(values.double(), 0.5, training=True) == 0).any()
    assert np.isclose(next_mask(0.25)[2], 4 / 3)


DROP = """
import torch
from bertcli.models.dropout import dropout
dropout(torch.ones(4, 4), 0.5, training=True)
"""


def test_of_two_processes_that_want_a_kernel_one_compiles_it(tmp_path: Path) -> None:
    cache = {"NUMBA_CACHE_DIR": str(tmp_path), "NUMBA_DEBUG_CACHE": "1"}
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **cache}
    command = [sys.executable, "-c", DROP]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(2)]
    kept = [line for each in both for line in each.communicate()[0].splitlines() if "data saved" in line]
    assert [each.returncode for each in both] == [0, 0]
    assert len([line for line in kept if "loops.drop-" in line]) == 1


def test_where_compiled_kernels_cannot_be_kept_a_run_compiles_them_and_says_so(
    monkeypatch: pytest.MonkeyPatch, said: pytest.LogCaptureFixture
) -> None:
    def add_ones(values) -> None:
        for i in numba.prange(len(values)):
            values[i] += 1

    monkeypatch.setattr(numba.config, "CACHE_LOCATOR_CLASSES", "UserProvidedCacheLocator")
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    values = torch.zeros(2)
    runpy.run_path(compiled.__file__)["kernel"](add_ones)(values)
    assert values.tolist() == [1, 1]
    assert "each run compiles its kernels" in said.text
