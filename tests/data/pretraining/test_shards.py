"""Shards are read back as they were written."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from bertcli.data.pretraining.shards import load_pretraining_examples, opened_bytes
from bertcli.errors import UserError
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


def test_data_that_the_cache_does_not_hold_are_read_by_windows_row_for_row(shards: Path, cache: Path) -> None:
    whole = load_pretraining_examples(shards, 0)
    assert whole.shards_per_window == 0
    limit = 0.6 * opened_bytes(whole.manifest)
    windowed = load_pretraining_examples(shards, 0, limit / 1e9)
    assert windowed.shards_per_window == 1
    steps = 2 * len(whole) // 16 + 1
    order = [windowed.rows_of_step(3, step, 16) for step in range(steps)]
    assert sorted(np.concatenate(order)[: len(whole)]) == list(range(len(whole)))
    for step in (0, steps // 2, steps - 1, 1):
        rows = order[step]
        theirs, ours = whole.take(rows, step), windowed.take(rows, step)
        assert (windowed.lengths[rows] == whole.lengths[rows]).all()
        for name in ("rows", "lengths", "input_ids", "token_type_ids", "next_sentence_labels", "key"):
            assert np.array_equal(getattr(theirs, name), getattr(ours, name))
        assert np.array_equal(theirs.masks, ours.masks)
    assert len(windowed.opened.tables) <= 3


def test_rows_without_a_cache_that_holds_them_are_refused(shards: Path, cache: Path) -> None:
    with pytest.raises(UserError, match="begun with all of it in the cache") as error:
        load_pretraining_examples(shards, 0, 1e-9, shards_per_window=0)
    assert "--data-cache-gb 1" in error.value.hint


@pytest.mark.parametrize("change", [{"instances": 3}, {"file": "shard-00001.parquet", "sha256": None}])
def test_a_manifest_that_does_not_fit_its_shards_is_refused(
    change: dict[str, object], shards: Path, cache: Path, tmp_path: Path
) -> None:
    shutil.copytree(shards, tmp_path / "data")
    manifest = json.loads((tmp_path / "data" / "manifest.json").read_text())
    manifest["shards"][0].update(change)
    manifest["shards"] = [{key: v for key, v in shard.items() if v is not None} for shard in manifest["shards"]]
    (tmp_path / "data" / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(UserError, match="its columns or rows are not those of its manifest"):
        load_pretraining_examples(tmp_path / "data", 0).take(np.arange(3))
