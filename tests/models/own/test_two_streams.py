"""XLNet on packed batches: equal to the original's code, and to transformers."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, pad
from torch.nn.utils.rnn import pad_sequence
from transformers import XLNetConfig, XLNetLMHeadModel

from bertcli.data.packing.sequences import Sequences
from bertcli.models.own.permuted import Predictions
from bertcli.models.own.two_streams import PackedXLNetModel, run_packed

GOLDENS = Path(__file__).parents[2] / "goldens" / "xlnet"
CONFIG = json.loads((GOLDENS / "two_stream.config.json").read_text())
SHAPE = {name: CONFIG[name] for name in ("d_model", "n_layer", "n_head", "d_inner")}
ROWS, LENGTH, REUSED, KEPT = CONFIG["bsz"], CONFIG["qlen"], CONFIG["reuse_len"], CONFIG["mem_len"]
CPU = torch.device("cpu")
BIASES = ("r_w_bias", "r_r_bias", "r_s_bias", "seg_embed")


@pytest.fixture
def golden() -> dict[str, Tensor]:
    with np.load(GOLDENS / "two_stream_uni.npz") as arrays:
        return {name: torch.from_numpy(np.asarray(arrays[name])) for name in arrays.files}


def names_of(kind: str, golden: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The original's weights or gradients, by the names of transformers."""
    of = {name.removeprefix(f"{kind}/"): value for name, value in golden.items() if name.startswith(f"{kind}/")}
    table = of["transformer/word_embedding/lookup_table"]
    found = {"transformer.word_embedding.weight": table, "lm_loss.weight": table, "lm_loss.bias": of["lm_loss/bias"]}
    found["transformer.mask_emb"] = of["transformer/mask_emb/mask_emb"]
    for number in range(SHAPE["n_layer"]):
        own, theirs = f"transformer.layer.{number}", f"transformer/layer_{number}"
        found |= {f"{own}.rel_attn.{part}": of[f"{theirs}/rel_attn/{part}/kernel"] for part in "qkvor"}
        found |= {f"{own}.rel_attn.{part}": of[f"transformer/{part}"][number] for part in BIASES}
        for part in ("rel_attn", "ff"):
            found[f"{own}.{part}.layer_norm.weight"] = of[f"{theirs}/{part}/LayerNorm/gamma"]
            found[f"{own}.{part}.layer_norm.bias"] = of[f"{theirs}/{part}/LayerNorm/beta"]
        for part in ("layer_1", "layer_2"):
            found[f"{own}.ff.{part}.weight"] = of[f"{theirs}/ff/{part}/kernel"].T
            found[f"{own}.ff.{part}.bias"] = of[f"{theirs}/ff/{part}/bias"]
    return found


def new_model(**settings: object) -> XLNetLMHeadModel:
    torch.manual_seed(0)
    config = XLNetConfig(vocab_size=CONFIG["n_token"], ff_activation="gelu_pytorch_tanh", **SHAPE, **settings)
    return XLNetLMHeadModel(config).eval()


def packed(model: XLNetLMHeadModel) -> PackedXLNetModel:
    return run_packed(model).base_model


def rows(golden: Mapping[str, Tensor], name: str) -> Tensor:
    """An input of the original, [L, N, ...], a sequence a row."""
    return golden[f"in/{name}"].transpose(0, 1).long()


def predictions(golden: Mapping[str, Tensor]) -> Predictions:
    """What is predicted; the ranks that hide what a matrix of the original does."""
    hidden = golden["in/perm_mask"].permute(2, 0, 1)
    sees_less = hidden.sum(2)
    own, ranks = (sees_less[:, None] > sees_less[:, :, None]).sum(2), hidden.sum(1).long() - 1
    assert torch.equal(own[:, :, None] <= ranks[:, None], hidden.bool())
    is_real = rows(golden, "target_mask").bool()
    places = golden["in/target_mapping"].permute(2, 0, 1).argmax(2)[is_real]
    counts = is_real.sum(1)
    positions = places + torch.arange(ROWS).repeat_interleave(counts) * LENGTH
    return Predictions(positions, places, tuple(counts.tolist()), own.flatten(), ranks.flatten())


def test_losses_gradients_and_memory_equal_the_original(golden: dict[str, Tensor]) -> None:
    model = new_model()
    model.load_state_dict(names_of("w", golden))
    memory = [golden[f"in/mems_{number}"].transpose(0, 1) for number in range(SHAPE["n_layer"])]
    batch = (rows(golden, "input_ids").flatten(), rows(golden, "seg").flatten(), Sequences((LENGTH,) * ROWS, 0, CPU))
    layers = packed(model).layers(*batch, predictions(golden), memory)
    is_real = rows(golden, "target_mask").bool()
    assert torch.allclose(layers[-1], golden["out/query_stream"].transpose(0, 1)[is_real], atol=1e-5)
    losses = cross_entropy(model.lm_loss(layers[-1]), rows(golden, "target")[is_real], reduction="none")
    assert torch.allclose(losses, golden["out/token_loss"].T[is_real], atol=1e-5)
    losses.mean().backward()
    for name, gradient in names_of("grad", golden).items():
        if name != "lm_loss.weight":  # the embeddings, whose gradient has both parts
            assert torch.allclose(model.get_parameter(name).grad, gradient, atol=1e-6), name
    for number, before in enumerate(memory):
        reused = layers[number][: ROWS * LENGTH].view(ROWS, LENGTH, -1)[:, :REUSED]
        kept = torch.cat([before, reused], 1)[:, -KEPT:]
        assert torch.allclose(kept, golden[f"out/new_mems_{number}"].transpose(0, 1), atol=1e-5)


def test_directions_equal_those_of_transformers(golden: dict[str, Tensor]) -> None:
    model, ids, types = new_model(bi_data=True), rows(golden, "input_ids"), rows(golden, "seg")
    before = [golden[f"in/mems_{number}"] for number in range(SHAPE["n_layer"])]
    mapping, hidden = (golden[f"in/{name}"].permute(2, 0, 1) for name in ("target_mapping", "perm_mask"))
    given = {"token_type_ids": types, "perm_mask": hidden, "target_mapping": mapping, "mems": before, "use_mems": True}
    expected = model.transformer(ids, **given).last_hidden_state[rows(golden, "target_mask").bool()]
    memory = [each.transpose(0, 1) for each in before]
    batch = (ids.flatten(), types.flatten(), Sequences((LENGTH,) * ROWS, 0, CPU), predictions(golden), memory)
    directions = torch.tensor([0] * (ROWS // 2) + [1] * (ROWS // 2))  # transformers reads half of a batch backwards
    assert torch.allclose(packed(model).layers(*batch, directions)[-1], expected, atol=1e-5)


@pytest.mark.parametrize("has_types", [True, False])
def test_sequences_of_any_length_equal_those_of_transformers(has_types: bool) -> None:
    model, lengths, idle = new_model(clamp_len=6), (33, 17, 9, 2, 1), 3
    ids, types = torch.randint(9, CONFIG["n_token"], (sum(lengths),)), torch.randint(0, 3, (sum(lengths),))
    columns = {"input_ids": ids, **({"token_type_ids": types} if has_types else {})}
    padded = {name: pad_sequence(list(each.split(lengths)), batch_first=True) for name, each in columns.items()}
    is_token = torch.arange(lengths[0]) < torch.tensor(lengths)[:, None]
    asked = {"attention_mask": is_token.long(), "output_hidden_states": True}
    expected = model.transformer(**padded, **asked)
    flat = {name: pad(each, (0, idle))[None] for name, each in columns.items()}
    found = packed(model)(**flat, sequences=Sequences(lengths, idle, CPU), output_hidden_states=True)
    for own, theirs in zip(found.hidden_states, expected.hidden_states, strict=True):
        assert torch.allclose(own[0, : len(ids)], theirs[is_token], atol=1e-5)
    assert torch.equal(packed(model)(**padded, **asked).last_hidden_state, expected.last_hidden_state)
