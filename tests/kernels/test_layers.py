"""The layers with fewer passes give what transformers' own give, forward and backward, in either precision."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.functional import gelu, layer_norm
from transformers import (
    AlbertConfig,
    AlbertModel,
    BertConfig,
    BertModel,
    RobertaConfig,
    RobertaForMaskedLM,
    XLNetConfig,
    XLNetModel,
)

from bertcli.data.packing.sequences import Sequences
from bertcli.kernels.layers import (
    AlbertAttention,
    AlbertLayer,
    FeedForward,
    Intermediate,
    Output,
    SelfAttention,
    prepack_layers,
)
from bertcli.kernels.products import _AddAndNorm, _Gelu
from bertcli.models.dropout import Dropout, next_mask, seed_dropout
from bertcli.models.own.two_streams import run_packed
from bertcli.models.packed import PACKED, prepare_layers
from tests.kernels.exact import COLUMNS, PRECISIONS, ROWS, assert_same, exactly, factors, random


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
@pytest.mark.parametrize("rate", [0.0, 0.1])
def test_a_sum_with_dropout_and_its_layer_norm(dtype: torch.dtype, rate: float) -> None:
    shapes = (ROWS, COLUMNS), (COLUMNS,), (ROWS, COLUMNS), (COLUMNS,), (COLUMNS,)
    given = [random(*shape, dtype=dtype) for shape in shapes]
    product, bias, residual, weight, shift = exact = exactly(*given)
    mask = next_mask(rate, ROWS)
    total = (product + bias) * factors(mask, ROWS, COLUMNS) + residual
    wanted = layer_norm(total, (COLUMNS,), weight, shift, 1e-12)
    found = _AddAndNorm.apply(mask, 1e-12, *given)
    towards = random(ROWS, COLUMNS, dtype=dtype).detach()
    found.backward(towards)
    wanted.backward(towards.double())
    assert_same([found, *(each.grad for each in given)], [wanted, *(each.grad for each in exact)], dtype)


def test_the_layers_of_a_packed_family_are_fused_and_keep_their_weights() -> None:
    config = RobertaConfig(
        vocab_size=30, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32
    )
    for attention, fused in ((PACKED, 2), ("eager", 0)):
        model = RobertaForMaskedLM._from_config(config, attn_implementation=attention)
        names = list(model.state_dict())
        for _ in range(2):
            prepare_layers(model)
        parts = (SelfAttention, Intermediate, Output)
        kinds = [sum(isinstance(module, kind) for module in model.modules()) for kind in parts]
        assert kinds == [fused, fused, 2 * fused]
        assert not [module for module in model.modules() if type(module) is nn.Dropout]
        assert any(isinstance(module, Dropout) for module in model.modules())
        assert list(model.state_dict()) == names


TWINS = {
    "Bert": (BertConfig, BertModel, {}, (SelfAttention, Intermediate, Output)),
    "Albert": (
        AlbertConfig,
        AlbertModel,
        {"embedding_size": 16, "hidden_act": "gelu_new"},
        (AlbertAttention, AlbertLayer),
    ),
}


@pytest.mark.parametrize("family", TWINS)
def test_a_layer_gives_what_its_plain_twin_gives_with_the_same_dropout(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config_class, model_class, more, parts = TWINS[family]
    config = config_class(
        vocab_size=30,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        hidden_dropout_prob=0.2,
        attention_probs_dropout_prob=0.3,
        attn_implementation=PACKED,
        **more,
    )
    lengths = (40, 33, 9, 9, 1)
    found = {}
    for kernels in ("off", "on"):
        monkeypatch.setenv("BERT_KERNELS", kernels)
        torch.manual_seed(0)
        model = model_class(config, add_pooling_layer=False).train()
        prepare_layers(model)
        assert all(any(isinstance(module, part) for module in model.modules()) == (kernels == "on") for part in parts)
        seed_dropout(3)
        ids = torch.arange(sum(lengths) + 4)[None] % 30
        sequences = Sequences(lengths, 4, torch.device("cpu"))
        positions = torch.arange(ids.shape[1])[None] % 40
        states = model(ids, position_ids=positions, sequences=sequences).last_hidden_state[:, : sum(lengths)]
        states.sin().sum().backward()
        found[kernels] = [states.detach(), *(parameter.grad for parameter in model.parameters())]
    for one, other in zip(*found.values(), strict=True):
        torch.testing.assert_close(one, other, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("lengths", [(20,), (9, 5)])
def test_layers_that_only_predict_give_what_plain_ones_give_whatever_follows(lengths: tuple[int, ...]) -> None:
    shape = {"vocab_size": 30, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = BertConfig(**shape, intermediate_size=64, attn_implementation=PACKED)
    torch.manual_seed(0)
    model = BertModel(config, add_pooling_layer=False).eval()
    count, found = sum(lengths), []
    for idle in (0, 3):
        ids, positions = torch.arange(count + idle)[None] % 30, torch.arange(count + idle)[None] % 20
        for is_prepacked in (False, True):
            own = copy.deepcopy(model)
            prepare_layers(own)
            if is_prepacked:
                prepack_layers(own)
                assert all(layer.reads for layer in own.encoder.layer)
            for is_causal in (False, True):
                sequences = Sequences(lengths, idle, torch.device("cpu"), 1, is_causal)
                with torch.inference_mode():
                    states = own(ids, position_ids=positions, sequences=sequences).last_hidden_state[0, :count]
                found.append(states)
    for one, other in zip(found[:2] * 3, found[2:], strict=True):
        torch.testing.assert_close(one, other, atol=2e-6, rtol=1e-5)
    assert not torch.allclose(found[0], found[1])


def test_the_layers_of_an_xlnet_give_what_their_plain_twins_give_with_the_same_dropout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shape = {"vocab_size": 30, "d_model": 32, "n_layer": 2, "n_head": 2, "d_inner": 64}
    lengths, found = (40, 33, 9, 9, 1), {}
    ids = torch.arange(sum(lengths))[None] % 30
    for kernels in ("off", "on"):
        monkeypatch.setenv("BERT_KERNELS", kernels)
        torch.manual_seed(0)
        config = XLNetConfig(**shape, dropout=0.2, attn_implementation=PACKED)
        model = run_packed(XLNetModel(config)).train()
        prepare_layers(model)
        assert any(isinstance(module, FeedForward) for module in model.modules()) == (kernels == "on")
        seed_dropout(3)
        states = model(ids, sequences=Sequences(lengths, 0, torch.device("cpu"))).last_hidden_state
        states.sin().sum().backward()
        grads = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
        found[kernels] = [states.detach(), *grads]
    for one, other in zip(*found.values(), strict=True):
        torch.testing.assert_close(one, other, atol=2e-5, rtol=1e-4)
