"""ALBERT runs packed as it runs padded in transformers, and reads sentence pieces."""

from pathlib import Path

import pytest
import torch

from bertcli.kernels import prepack
from tests.data.text.tokenizers import save_sentence_pieces
from tests.families.checks import (
    KINDS,
    SIZES,
    check_gradients,
    check_outputs,
    check_own_tokenizer,
    make_batch,
    objective_of,
    save,
)
from tests.support import take_kernels

SHARED = {**SIZES, "embedding_size": 16, "hidden_act": "gelu_new"}
CONFIGS = {
    "one group": SHARED,
    "groups": {**SHARED, "num_hidden_layers": 3, "num_hidden_groups": 2, "inner_group_num": 2},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("many", [1, 10_000])  # tokens from which on predictions take kernels
def test_outputs_are_those_of_transformers(
    many: int, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_kernels(monkeypatch, many)
    check_outputs("Albert", SHARED, kind, tmp_path)


@pytest.mark.parametrize("name", CONFIGS)
def test_gradients_are_those_of_transformers(name: str, tmp_path: Path) -> None:
    check_gradients("Albert", CONFIGS[name], tmp_path)


@pytest.mark.parametrize("name", CONFIGS)
def test_one_token_of_each_sequence_is_read_alone(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    take_kernels(monkeypatch)
    check_outputs("Albert", CONFIGS[name], "classify", tmp_path)


def test_weights_in_the_order_of_their_products_give_the_same_logits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_kernels(monkeypatch)
    save("Albert", CONFIGS["groups"], KINDS["classify"], tmp_path)
    batch, _ = make_batch({}, has_types=True)
    plain, prepacked = (objective_of("classify", tmp_path) for _ in range(2))
    prepack(prepacked.model)
    torch.testing.assert_close(plain.outputs(batch)["logits"], prepacked.outputs(batch)["logits"], atol=1e-5, rtol=1e-4)


def test_it_is_used_with_its_own_tokenizer(workspace: Path) -> None:
    save_sentence_pieces(Path("start"))
    check_own_tokenizer("Albert", SHARED)
