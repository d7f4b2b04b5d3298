"""DistilBERT runs packed as it runs padded in transformers."""

from pathlib import Path

import pytest

from tests.families.checks import DISTILBERT, KINDS, check_finetuning, check_gradients, check_outputs

CONFIGS = {"DistilBert": DISTILBERT}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CONFIGS)
def test_outputs_are_those_of_transformers(name: str, kind: str, tmp_path: Path) -> None:
    check_outputs(name, CONFIGS[name], kind, tmp_path)


@pytest.mark.parametrize("name", CONFIGS)
def test_gradients_are_those_of_transformers(name: str, tmp_path: Path) -> None:
    check_gradients(name, CONFIGS[name], tmp_path)


def test_it_is_finetuned_and_predicts(workspace: Path) -> None:
    check_finetuning("DistilBert", CONFIGS["DistilBert"])
