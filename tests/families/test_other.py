"""Any other model of transformers runs padded, which is said."""

from pathlib import Path

import pytest
import torch
import transformers

from bertcli.models.working_copy import WorkingCopy
from tests.families.checks import KINDS, SIZES, check_finetuning, check_outputs, make_batch, objective_of, save

CONFIGS = {
    "ModernBert": {**SIZES, "bos_token_id": 2, "cls_token_id": 2, "eos_token_id": 3, "sep_token_id": 3},
    "ConvBert": {**SIZES, "embedding_size": 16},
    "MobileBert": {**SIZES, "intra_bottleneck_size": 32, "embedding_size": 16},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CONFIGS)
def test_outputs_are_those_of_transformers(
    name: str, kind: str, tmp_path: Path, said: pytest.LogCaptureFixture
) -> None:
    check_outputs(name, CONFIGS[name], kind, tmp_path, packed=False)
    assert f"is a {name.lower()}: its batches are padded" in said.text


def test_it_is_finetuned_and_predicts(workspace: Path) -> None:
    check_finetuning("ConvBert", CONFIGS["ConvBert"])


def test_in_bfloat16_positions_stay_as_precise_as_in_transformers(tmp_path: Path) -> None:
    save("ModernBert", CONFIGS["ModernBert"], KINDS["classify"], tmp_path)
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path, dtype=torch.bfloat16)
    copy = WorkingCopy(objective_of("classify", tmp_path), torch.bfloat16).module
    batch, padded = make_batch({}, has_types=False)
    for ours, wanted in zip(copy.model.buffers(), theirs.buffers(), strict=True):
        torch.testing.assert_close(ours, wanted)
    torch.testing.assert_close(copy.eval().outputs(batch)["logits"], theirs.eval()(**padded).logits.detach())
