"""Disentangled attention: its buckets, and the gradient of what it computes when it drops weights."""

import json
from types import SimpleNamespace

import pytest
import torch

from bertcli.data.packing import sequences as sequences_module
from bertcli.data.packing.sequences import Sequences
from bertcli.models.dropout import next_mask, seed_dropout
from bertcli.models.own import disentangled
from tests.models.own.test_deberta import GOLDENS

BUCKETS = json.loads((GOLDENS / "buckets.json").read_text())


@pytest.mark.parametrize("kind", BUCKETS)
def test_buckets_are_those_of_the_original(kind: str) -> None:
    buckets, furthest = map(int, kind.split("_"))
    rows = disentangled._rows(furthest, buckets, buckets, furthest)
    assert rows.tolist() == [min(max(each + buckets, 0), 2 * buckets - 1) for each in BUCKETS[kind]["bucket"]]


@pytest.mark.slow
def test_attention_that_drops_weights_has_the_gradient_of_what_it_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disentangled, "BLOCK", 3)
    monkeypatch.setattr(disentangled, "SHORT", 0)  # which would be computed in float32
    torch.manual_seed(0)
    projections = [torch.nn.Linear(6, 8).double() for _ in range(2)]
    sizes = {
        "num_attention_heads": 2,
        "max_relative_positions": 4,
        "pos_dropout": torch.nn.Dropout(0.3),
        "training": True,
    }
    module = SimpleNamespace(**sizes, project_positions=lambda: projections)
    monkeypatch.setattr(sequences_module, "SHORT", 0)
    sequences = Sequences((5, 5, 3, 3, 1), 2, torch.device("cpu"), 2)
    assert [group.cuts for group in sequences.groups] == [[1, 4]]  # as in bfloat16

    def attend(table: torch.Tensor, *states: torch.Tensor) -> torch.Tensor:
        seed_dropout(5)
        return disentangled.attend(module, sequences, next_mask(0.4, len(states[0])), 0.5, table, *states)

    given = [torch.randn(19, 2, 4, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    table = torch.randn(8, 6, dtype=torch.float64, requires_grad=True)
    torch.autograd.gradcheck(attend, (table, *given))
