"""DeBERTa's masks are those of the authors' code, draw for draw."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bertcli.data.pretraining.draws import Draws
from bertcli.data.pretraining.masking import KEPT
from bertcli.objectives.masked_ngrams import draw_ngrams

GOLDEN = json.loads((Path(__file__).parents[1] / "goldens" / "deberta" / "ngram_mask.json").read_text())
VOCAB = GOLDEN["vocab"]


def rules(limit: int, shares: tuple[int, int, int]) -> Any:
    special = [VOCAB.index(f"[{name}]") for name in ("MASK", "CLS", "SEP", "PAD", "UNK")]
    words = {"vocab_ids": [*range(len(VOCAB))], "mask_id": special[0], "special_ids": special, "masked_lm_prob": 0.15}
    words["is_continuation"] = [not token.startswith(("\u2581", "[")) for token in VOCAB]
    return SimpleNamespace(
        **words, shares=shares, num_to_predict=lambda length: min(limit, max(1, round(length * 0.15)))
    )


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: f"{case['max_gram']}-{len(case['tokens'])}")
def test_masks_are_those_of_the_original(case: dict[str, Any]) -> None:
    ids = [VOCAB.index(token) for token in case["tokens"]]
    mask, keep = (round(100 * case.get(name, share)) for name, share in (("mask_prob", 0.8), ("keep_prob", 0.1)))
    given = rules(case["max_preds"], (mask, keep, 100 - mask - keep))
    positions, replacements = draw_ngrams(ids, given, Draws(case["seed"]), case["max_gram"])
    assert positions == [place for place, label in enumerate(case["labels"]) if label]
    for place, new in zip(positions, replacements, strict=True):
        assert ids[place] == case["labels"][place]
        ids[place] = ids[place] if new == KEPT else new
    assert [VOCAB[token] for token in ids] == case["masked"]


def test_the_end_of_a_full_row_has_few_masks() -> None:
    inner = [number for number, token in enumerate(VOCAB) if not token.startswith("[")]
    ids = [1, *(inner[7 * number % len(inner)] for number in range(510)), 2]
    found = [draw_ngrams(ids, rules(80, (80, 10, 10)), Draws(seed), 1)[0] for seed in range(300)]
    assert {len(positions) for positions in found} == {77}
    last = sum(place > 459 for positions in found for place in positions) / 300 / 51
    assert last == pytest.approx(GOLDEN["mask_share_by_tenth_of_510_tokens"][-1], abs=0.003)
