"""Blocks and masks are fairseq's; dynamic masks have the same distribution."""

import json
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from conftest import GOLDENS

from bertcli.data.pretraining.draws import Draws
from bertcli.data.pretraining.instances import InstanceRules, make_instances
from bertcli.data.pretraining.masking import MaskingRules
from bertcli.data.pretraining.shards import UnpackedRows
from bertcli.data.text.corpus import Corpus
from bertcli.data.text.tokenization import Layout
from bertcli.objectives.full_sentences import FULL_SENTENCES, cut_blocks, mask_batch, mask_tokens, token_blocks

FOLDER = GOLDENS / "roberta"
MASKS = json.loads((FOLDER / "mask_tokens.json").read_text())
BLOCKS = json.loads((FOLDER / "token_blocks.json").read_text())
GENERATORS: dict[str, Any] = {"v0.9.0": np.random.RandomState, "3d262bb2": np.random.default_rng}
V = MASKS["vocab_size"]


def rules_of(prob: float = 0.15, keep: int = 10, random: int = 10, whole_word: bool = False) -> MaskingRules:
    continues = [not begins for begins in MASKS["word_begins"]]
    shares = (100 - keep - random, keep, random)
    return MaskingRules(
        list(range(V)), continues, MASKS["mask"], 0, 2, prob, 512, whole_word, shares, False, [0, 1, 2, 3]
    )


@pytest.mark.parametrize("golden", BLOCKS, ids=lambda each: f"{each['name']}-{each['mode']}-{each['block_size']}")
def test_blocks_are_fairseqs(golden: dict[str, Any]) -> None:
    if "error" not in golden:
        found = token_blocks(golden["sizes"], golden["block_size"], golden["mode"])
        assert [list(block) for block in found] == golden["slices"]


@pytest.mark.parametrize("golden", MASKS["cases"], ids=lambda each: f"{each['code']}-{each['name']}-{each['epoch']}")
def test_masks_are_fairseqs_draw_for_draw(golden: dict[str, Any]) -> None:
    args = golden["args"]
    keep, random = (round(100 * args.get(name, 0.1)) for name in ("leave_unmasked_prob", "random_token_prob"))
    rules = rules_of(args.get("mask_prob", 0.15), keep, random, golden["whole_word"])
    weights = None
    if args.get("freq_weighted_replacement"):
        weights = np.array([0.0] * 4 + MASKS["counts"][4:])
        weights /= weights.sum()
    for number, source, target in zip(golden["index"], golden["src"], golden["tgt"], strict=True):
        seed = int(hash((args.get("seed", 1), golden["epoch"], number)) % 1e6)
        item = np.array(MASKS["items"][number])
        masked, is_masked = mask_tokens(item, rules, GENERATORS[golden["code"]](seed), weights)
        assert masked.tolist() == source
        assert np.where(is_masked, item, MASKS["pad"]).tolist() == target


@pytest.mark.parametrize("whole_word", [False, True])
def test_dynamic_masks_have_fairseqs_distribution(whole_word: bool) -> None:
    item, rows = np.array(MASKS["items"][1]), 4000
    rules = rules_of(whole_word=whole_word)
    words = sum(not rules.is_continuation[each] for each in item) if whole_word else len(item)
    ids, lengths = np.tile(item, rows), np.full(rows, len(item))
    read = UnpackedRows(np.arange(rows), lengths, ids, ids * 0, lengths * 0, None, rules, key=7)
    positions, originals = mask_batch(read)
    assert np.array_equal(originals, np.tile(item, rows)[positions])
    chosen = np.bincount(positions % len(item), minlength=len(item)) / rows
    assert chosen[[0, -1]] == pytest.approx(0.15, abs=0.02)  # special tokens are masked like others
    assert chosen.mean() == pytest.approx(0.15, abs=0.01)
    if not whole_word:
        assert set(np.bincount(positions // len(item))) == {3}  # exactly 0.15 * 20
    new = ids[positions]
    assert (new == MASKS["mask"]).mean() == pytest.approx(0.8, abs=0.015)
    assert (new == originals).mean() == pytest.approx(0.1, abs=0.015)
    assert not np.isin(new[new != originals], [0, 1, 2, 3]).any()
    assert words <= len(item)


def test_dynamic_masks_are_a_function_of_key_and_row() -> None:
    item, rules = np.array(MASKS["items"][2]), rules_of()

    def masked(rows: list[int], key: int) -> list[int]:
        lengths, ids = np.full(len(rows), len(item)), np.tile(item, len(rows))
        mask_batch(UnpackedRows(np.array(rows), lengths, ids, ids * 0, lengths * 0, None, rules, key))
        return ids[-len(item) :].tolist()

    assert masked([5, 3], 1) == masked([3], 1) != masked([3], 2)


def test_static_masks_are_those_of_fairseqs_epochs() -> None:
    golden = {
        each["epoch"]: each["src"] for each in MASKS["cases"] if (each["code"], each["name"]) == ("3d262bb2", "seed_7")
    }
    items = MASKS["items"]
    bounds = np.cumsum([0, *(len(item) - 1 for item in items)]).tolist()
    corpus = Corpus(np.array([token for item in items for token in item[1:]], np.uint32), bounds, [(0, len(items))])
    rules = InstanceRules(FULL_SENTENCES.cut, cast(Any, None), Layout((0,), (), ()), rules_of(), True, 64, 0.1, 2)
    rules = replace(rules, cut=lambda instances, draws: cut_blocks("eos", instances, draws))
    instances, order = make_instances(corpus, rules, Draws(7))
    columns = instances.columns(order)
    rows = [row.tolist() for row in np.split(columns.input_ids, columns.offsets[1:-1])]
    assert rows == golden[1] + golden[2]
