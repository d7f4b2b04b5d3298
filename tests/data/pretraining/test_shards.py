"""Shards are read back as they were written."""

from pathlib import Path

import numpy as np

from bertcli.data.pretraining.shards import load_pretraining_examples
from bertcli.lifecycle.make_pretraining_data import make_pretraining_data


def test_static_masks_are_undone_before_counting(at_home: Path, tmp_path: Path) -> None:
    for masking in ("static", "dynamic"):
        make_pretraining_data("corpus.txt", out=str(tmp_path / masking), masking=masking, dupe_factor=1, workers=1)
    static, dynamic = (load_pretraining_examples(tmp_path / name, 0) for name in ("static", "dynamic"))
    mask = static.tokenizer.special("mask")
    with_masks, without = static.take(np.arange(5)), dynamic.take(np.arange(5))
    assert mask in with_masks.input_ids
    assert mask not in with_masks.unmasked_ids()
    assert (without.unmasked_ids() == without.input_ids).all()
