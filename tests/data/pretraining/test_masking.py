"""Dynamic masks follow the same rules as static ones, and depend on nothing but (seed, step, row)."""

import json
from itertools import chain

import numpy as np
import pytest
from conftest import GOLDENS
from hypothesis import given, settings
from hypothesis import strategies as st

from bertcli.data.pretraining.draws import Draws
from bertcli.data.pretraining.masking import (
    KEPT,
    LONGEST_SPAN,
    MaskingRules,
    _choose_spans,
    draw_masks,
    mask_batch,
    parse_shares,
)
from bertcli.data.text.tokenization import WordPiece
from bertcli.errors import UserError


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


@settings(max_examples=50)
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


@pytest.mark.parametrize("text", ["80,10,10", "100,0,0", "80,0,20", "80,20,0", "0,20,80", "0,0,100"])
@pytest.mark.parametrize("spans", [False, True])
def test_the_shares_of_table_8_are_kept_by_static_and_dynamic_masks(
    google_tokenizer: WordPiece, text: str, spans: bool
) -> None:
    rules = MaskingRules.of(google_tokenizer, 0.15, 20, False, text, spans)
    ids, lengths = make_rows(google_tokenizer, 600)
    before, wanted = ids.copy(), np.array(rules.shares) / 100
    positions, originals = mask_batch(ids, np.arange(600), lengths, rules, key=5)
    assert (before[positions] == originals).all()
    statically = [
        draw_masks(100, 100, row.tolist(), rules, Draws(7 + n))[1] for n, row in enumerate(before.reshape(-1, 100))
    ]
    drawn = np.concatenate(statically)
    assert len(positions) == len(drawn) == 600 * 15
    masked, kept = ids[positions] == rules.mask_id, ids[positions] == originals
    shares = [masked.mean(), kept.mean(), (~masked & ~kept).mean()]
    other = [
        np.mean(drawn == rules.mask_id),
        np.mean(drawn == KEPT),
        np.mean((drawn != rules.mask_id) & (drawn != KEPT)),
    ]
    assert shares == pytest.approx(wanted, abs=0.04 if spans else 0.02)
    assert other == pytest.approx(wanted, abs=0.04 if spans else 0.02)


def test_shares_that_do_not_sum_to_100_are_an_error() -> None:
    for text in ("80,10,20", "80,10", "110,-10,0", "most", "80,10,10,0"):
        with pytest.raises(UserError, match=f"--mask-shares {text} is not three percentages"):
            parse_shares(text)


@settings(max_examples=50)
@given(st.lists(st.integers(1, 3), min_size=1, max_size=40), st.integers(0, 39), st.floats(0, 1), st.integers(0, 99))
def test_spans_are_of_whole_words_within_a_text_and_fill_the_budget(
    google_tokenizer: WordPiece, words: list[int], first: int, prob: float, key: int
) -> None:
    rules = MaskingRules.of(google_tokenizer, prob, 20, False, "100,0,0", True)
    start, piece = (google_tokenizer.vocab[token] for token in ("the", "##s"))
    spelled = [[start, *[piece] * (count - 1)] for count in words]
    first = min(first, len(words) - 1)
    row = np.array([rules.cls_id, *chain(*spelled[:first]), rules.sep_id, *chain(*spelled[first:]), rules.sep_id])
    positions, originals = mask_batch(row.copy(), np.array([3]), np.array([len(row)]), rules, key)
    assert len(positions) == min(rules.num_to_predict(len(row)), sum(words))
    assert not np.isin(originals, [rules.cls_id, rules.sep_id]).any()
    masked = set(positions.tolist())
    cut = [place for place in masked if row[place + 1] == piece and place + 1 not in masked]
    assert len(cut) <= 1  # where the budget ends
    assert all(place - 1 in masked for place in masked if row[place] == piece)


def test_spans_are_as_long_as_in_spanbert(google_tokenizer: WordPiece) -> None:
    rules = MaskingRules.of(google_tokenizer, 0.15, 1000, False, "100,0,0", True)
    length = 1000
    row, lengths = [rules.cls_id, *[google_tokenizer.vocab["the"]] * (length - 2), rules.sep_id], []
    for seed in range(30):
        spans = _choose_spans([[[place] for place in range(1, length - 1)], []], 40, Draws(seed))
        lengths += [len(span) for span in spans[:-1]]
    assert max(lengths) == LONGEST_SPAN
    assert np.mean(lengths) == pytest.approx(sum(0.8**n for n in range(10)), abs=0.5)
    assert len(row) == length
