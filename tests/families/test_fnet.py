"""FNet runs padded, its Fourier transforms in float32."""

from pathlib import Path

import pytest
import torch

from bertcli.models.working_copy import WorkingCopy
from tests.families.checks import KINDS, SIZES, check_outputs, make_batch, objective_of, save


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_are_those_of_transformers(kind: str, tmp_path: Path) -> None:
    check_outputs("FNet", SIZES, kind, tmp_path, packed=False)


def test_a_fourier_transform_is_made_in_float32(tmp_path: Path) -> None:
    save("FNet", SIZES, KINDS["classify"], tmp_path)
    objective = objective_of("classify", tmp_path)
    batch, _ = make_batch({"labels": torch.zeros(5, dtype=torch.long)}, has_types=True)
    copy = WorkingCopy(objective, torch.bfloat16)
    wanted = objective.outputs(batch)["logits"]
    torch.testing.assert_close(copy.module.outputs(batch)["logits"].float(), wanted, atol=0.02, rtol=0.02)
    copy.module(batch)["loss"].backward()
