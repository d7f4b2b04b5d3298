"""ALBERT runs packed as it runs padded in transformers, and reads sentence pieces."""

from pathlib import Path

import pytest

from tests.data.text.tokenizers import save_sentence_pieces
from tests.families.checks import KINDS, SIZES, check_gradients, check_outputs, check_own_tokenizer

CONFIGS = {"Albert": {**SIZES, "embedding_size": 16}}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CONFIGS)
def test_outputs_are_those_of_transformers(name: str, kind: str, tmp_path: Path) -> None:
    check_outputs(name, CONFIGS[name], kind, tmp_path)


@pytest.mark.parametrize("name", CONFIGS)
def test_gradients_are_those_of_transformers(name: str, tmp_path: Path) -> None:
    check_gradients(name, CONFIGS[name], tmp_path)


def test_it_is_used_with_its_own_tokenizer(workspace: Path) -> None:
    save_sentence_pieces(Path("start"))
    check_own_tokenizer("Albert", CONFIGS["Albert"])
