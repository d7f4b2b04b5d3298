"""DeBERTa runs packed as it runs padded in transformers."""

from pathlib import Path

import pytest
import transformers

from bertcli.models.own import disentangled
from tests.families.checks import KINDS, SIZES, check_finetuning, check_gradients, check_outputs

RELATIVE = {**SIZES, "relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_biased_input": False}
V3 = {**RELATIVE, "position_buckets": 4, "norm_rel_ebd": "layer_norm", "share_att_key": True}
CONFIGS = {
    "v1": ("Deberta", RELATIVE),
    "v1-c2p": ("Deberta", {**RELATIVE, "pos_att_type": ["c2p"], "type_vocab_size": 2, "max_relative_positions": 6}),
    "v3": ("DebertaV2", V3),
    "v2-conv": ("DebertaV2", {**V3, "conv_kernel_size": 3, "conv_act": "gelu"}),
    "v2-own-keys": ("DebertaV2", {**V3, "share_att_key": False, "pos_att_type": ["p2c"], "position_buckets": -1}),
    "absolute": ("DebertaV2", SIZES),
}
CASES = [
    (name, kind)
    for name, (classes, _) in CONFIGS.items()
    for kind, head in KINDS.items()
    if hasattr(transformers, f"{classes}For{head}")
]


@pytest.fixture(autouse=True)
def blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disentangled, "BLOCK", 4)


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_outputs_are_those_of_transformers(name: str, kind: str, tmp_path: Path) -> None:
    check_outputs(*CONFIGS[name], kind, tmp_path)


@pytest.mark.parametrize("name", CONFIGS)
def test_gradients_are_those_of_transformers(name: str, tmp_path: Path) -> None:
    check_gradients(*CONFIGS[name], tmp_path)


@pytest.mark.parametrize("name", ["v1", "v3"])
def test_it_is_finetuned_and_predicts(name: str, workspace: Path) -> None:
    check_finetuning(*CONFIGS[name])
