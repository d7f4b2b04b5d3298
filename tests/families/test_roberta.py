"""RoBERTa and its kin run packed as they run padded in transformers, and read byte pairs."""

from pathlib import Path

import pytest
import torch

from tests.data.text.tokenizers import save_bytes
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

CONFIGS = {
    "Roberta": {**SIZES, "type_vocab_size": 1, "pad_token_id": 1},
    "XLMRoberta": {**SIZES, "type_vocab_size": 1},
    "RobertaPreLayerNorm": {**SIZES, "type_vocab_size": 1},
    "XLMRobertaXL": {**SIZES, "type_vocab_size": 1},
    "Data2VecText": {**SIZES, "type_vocab_size": 1},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CONFIGS)
def test_outputs_are_those_of_transformers(name: str, kind: str, tmp_path: Path) -> None:
    check_outputs(name, CONFIGS[name], kind, tmp_path)


@pytest.mark.parametrize("name", CONFIGS)
def test_gradients_are_those_of_transformers(name: str, tmp_path: Path) -> None:
    check_gradients(name, CONFIGS[name], tmp_path)


def test_it_is_used_with_its_own_tokenizer(workspace: Path) -> None:
    save_bytes(Path("start"))
    check_own_tokenizer("Roberta", CONFIGS["Roberta"])


def test_a_head_that_fills_has_a_loss(tmp_path: Path) -> None:
    save("Roberta", CONFIGS["Roberta"], "MaskedLM", tmp_path)
    places, ids = torch.tensor([1, 4, 20]), torch.tensor([7, 9, 11])
    batch, _ = make_batch({"masked_lm_positions": places, "masked_lm_ids": ids}, has_types=False)
    objective = objective_of("", tmp_path, head="fill")
    wanted = torch.nn.functional.cross_entropy(objective.outputs(batch)["masked_lm"], ids, reduction="sum")
    torch.testing.assert_close(objective(batch)["masked_lm"].detach(), wanted)
