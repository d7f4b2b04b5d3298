"""Dynamic masks follow the same rules as static ones, and depend on nothing but (seed, step, row)."""

import json

import numpy as np
import pytest
from conftest import GOLDENS
from hypothesis import given, settings
from hypothesis import strategies as st

from bertcli.data.pretraining.draws import Draws
from bertcli.data.pretraining.masking import KEPT, MaskingRules, draw_masks, mask_batch
from bertcli.data.text.tokenization import WordPiece


def make_rows(tokenizer: WordPiece, count: int, length: int = 100) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    rows = generator.integers(1000, tokenizer.size, (count, length))
    rows[:, 0], rows[:, -1] = tokenizer.special("cls"), tokenizer.special("sep")
    return rows.reshape(-1), np.full(count, length)


def test_dynamic_masks_keep_the_rates_80_10_10(google_tokenizer: WordPiece) -> None:
    rules = MaskingRules.of(google_tokenizer, 0.15, 20, False)
    ids, lengths = make_rows(google_tokenizer, 2000)
    before = ids.copy()
    positions, originals = mask_batch(ids, np.arange(2000), lengths, rules, key=5)
    assert len(positions) == 2000 * 15
    assert (before[positions] == originals).all()
    assert not np.isin(originals, [rules.cls_id, rules.sep_id]).any()
    assert np.mean(ids[positions] == rules.mask_id) == pytest.approx(0.8, abs=0.01)
    assert np.mean(ids[positions] == originals) == pytest.approx(0.1, abs=0.01)
    changed = np.ones(len(ids), dtype=bool)
    changed[positions] = False
    assert (ids[changed] == before[changed]).all()
    assert np.bincount(positions % 100, minlength=100)[1:99].std() < 30  # every place is as likely


def test_a_row_is_masked_alike_in_any_company(google_tokenizer: WordPiece) -> None:
    rules = MaskingRules.of(google_tokenizer, 0.15, 20, False)
    ids, lengths = make_rows(google_tokenizer, 8)
    together = ids.copy()
    mask_batch(together, np.arange(8), lengths, rules, key=9)
    alone = ids[300:400].copy()
    mask_batch(alone, np.array([3]), lengths[:1], rules, key=9)
    assert (alone == together[300:400]).all()
    other = ids[300:400].copy()
    mask_batch(other, np.array([3]), lengths[:1], rules, key=10)
    assert not (alone == other).all()


def test_dynamic_whole_word_masks_take_all_pieces_of_a_word(google_tokenizer: WordPiece) -> None:
    rules = MaskingRules.of(google_tokenizer, 0.3, 20, True)
    words = google_tokenizer.encode_ids(["unaffable tokenization preposterously the embeddings"])[0]
    row = np.array([rules.cls_id, *words, rules.sep_id])
    for key in range(0, 90, 3):
        positions, _ = mask_batch(row.copy(), np.array([0]), np.array([len(row)]), rules, key)
        assert len(positions) <= rules.num_to_predict(len(row))
        for position in positions:
            if rules.is_continuation[row[position]]:
                assert position - 1 in positions


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.integers(1, 4), max_size=12), min_size=1, max_size=5), st.integers(0, 99))
def test_a_word_that_does_not_fit_leaves_its_place_to_the_next(
    google_tokenizer: WordPiece, words: list[list[int]], key: int
) -> None:
    rules = MaskingRules.of(google_tokenizer, 0.3, 20, True)
    start, piece = (google_tokenizer.vocab[token] for token in ("the", "##s"))
    rows = [
        [rules.cls_id, *(id_ for n in sizes for id_ in (start, *[piece] * (n - 1))), rules.sep_id] for sizes in words
    ]
    lengths = np.array([len(row) for row in rows])
    positions, _ = mask_batch(np.concatenate(rows), np.arange(len(rows)), lengths, rules, key)
    for sizes, length, end in zip(words, lengths, np.cumsum(lengths), strict=True):
        masked = {place - (end - length) for place in positions.tolist()}
        budget = rules.num_to_predict(int(length))
        begins = np.cumsum([1, *sizes[:-1]]) if sizes else []
        taken = sum(size for size, begin in zip(sizes, begins, strict=True) if begin in masked)
        left = [size for size, begin in zip(sizes, begins, strict=True) if begin not in masked]
        assert sum(0 < place < length - 1 for place in masked) == taken <= budget
        assert all(size > budget - taken for size in left)


def mask_tokens(ids: list[int], rules: MaskingRules, draws: Draws) -> tuple[list[int], list[int]]:
    """Mask one instance in place: the positions, ascending, and the ids that stood there."""
    places, replacements = draw_masks(len(ids), ids.index(rules.sep_id) + 1, ids, rules, draws)
    drawn = dict(sorted(zip(places, replacements, strict=True)))
    originals = [ids[place] for place in drawn]
    for place, replacement in drawn.items():
        ids[place] = ids[place] if replacement == KEPT else replacement
    return list(drawn), originals


def test_masks_equal_googles_on_single_instances(google_tokenizer: WordPiece) -> None:
    vocab, tokens = google_tokenizer.vocab, google_tokenizer.tokens
    for unit in json.loads((GOLDENS / "pretraining" / "units.json").read_text())["masking"]:
        rules = MaskingRules.of(google_tokenizer, unit["masked_lm_prob"], unit["max_predictions_per_seq"], unit["wwm"])
        ids, draws = [vocab[token] for token in unit["tokens"]], Draws(unit["seed"])
        positions, originals = mask_tokens(ids, rules, draws)
        assert [tokens[token] for token in ids] == unit["out_tokens"]
        assert positions == unit["positions"]
        assert [tokens[token] for token in originals] == unit["labels"]
        assert draws.random() == unit["rng_after"]


def test_whole_words_are_masked_together(google_tokenizer: WordPiece) -> None:
    ids = google_tokenizer.encode_ids(["unaffable embeddings tokenization preposterously"])[0]
    rules = MaskingRules.of(google_tokenizer, 0.4, 20, True)
    for seed in range(30):
        row = [rules.cls_id, *ids, rules.sep_id]
        positions, originals = mask_tokens(list(row), rules, Draws(seed))
        assert originals == [row[position] for position in positions]
        for position in positions:
            if position + 1 < len(row) and rules.is_continuation[row[position + 1]]:
                assert position + 1 in positions
