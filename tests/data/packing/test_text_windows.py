"""Texts in windows: each token in one, the texts of a batch whole, and long texts bounded."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertcli.data.labelled.examples import TextExamples
from bertcli.data.packing.batches import TrainingBatches, evaluation_batches
from bertcli.data.packing.text_features import encode_texts
from bertcli.data.packing.text_windows import WindowedFeatures, encode_in_windows
from bertcli.data.packing.windows import MOST_TOKENS, WindowRules
from bertcli.data.text.tokenization import WordPiece
from bertcli.models import dropout

WORDS = ["the", "cat", "sat", "on", "mat", "and", "ran"]
TEXTS = st.lists(st.lists(st.sampled_from(WORDS), max_size=40).map(" ".join), min_size=1, max_size=6)


def encode(tokenizer: WordPiece, texts: list[str], pairs: list[str] | None = None, longest: int = 9, stride: int = 9):
    rules = WindowRules(longest, stride, 0, in_windows=True)
    return encode_in_windows(TextExamples(texts, pairs, origin=""), tokenizer, rules, np.arange(len(texts)))


def pieces_of(features: WindowedFeatures, text: int, tokenizer: WordPiece) -> list[list[int]]:
    """The tokens of each window of a text, without the special ones."""
    special = {tokenizer.special("cls"), tokenizer.special("sep")}
    windows = range(*features.first[text : text + 2])
    return [
        [id_ for id_ in features.input_ids.take(np.array([row]))[0].tolist() if id_ not in special] for row in windows
    ]


@settings(max_examples=40)
@given(texts=TEXTS, longest=st.integers(5, 20))
def test_windows_without_overlap_have_each_token_once(google_tokenizer: WordPiece, texts, longest) -> None:
    features = encode(google_tokenizer, texts, longest=longest, stride=longest)
    for text, expected in enumerate(google_tokenizer.encode_ids(texts)):
        windows = pieces_of(features, text, google_tokenizer)
        assert [id_ for window in windows for id_ in window] == expected
        assert max(map(len, windows)) <= longest - 2
    assert (features.truncated, features.cut_share) == (0, 0)


@settings(max_examples=40)
@given(texts=TEXTS, pairs=st.booleans())
def test_texts_that_fit_are_encoded_as_if_they_were_cut(google_tokenizer: WordPiece, texts, pairs) -> None:
    examples = TextExamples(texts, texts[::-1] if pairs else None, origin="")
    cut = encode_texts(examples, google_tokenizer, 100, None)
    features = encode_in_windows(examples, google_tokenizer, WindowRules(100, 100, 0, True), None)
    for column in ("input_ids", "token_type_ids"):
        found, expected = getattr(features, column), getattr(cut, column)
        assert found.take(np.arange(len(texts)))[0].tolist() == expected.take(np.arange(len(texts)))[0].tolist()


def test_the_longer_text_of_a_pair_is_read_in_windows_beside_the_shorter(google_tokenizer: WordPiece) -> None:
    long, short = "the cat sat on the mat", "ran"
    ids = dict(zip(WORDS, (row[0] for row in google_tokenizer.encode_ids(WORDS)), strict=True))
    second = encode(google_tokenizer, [short], [long], longest=7)
    first = encode(google_tokenizer, [long], [short], longest=7)
    parts = [[ids[word] for word in part.split()] for part in ("the cat sat", "on the mat")]
    assert pieces_of(second, 0, google_tokenizer) == [[ids["ran"], *part] for part in parts]
    assert pieces_of(first, 0, google_tokenizer) == [[*part, ids["ran"]] for part in parts]
    both = encode(google_tokenizer, [long], [long], longest=7)
    assert pieces_of(both, 0, google_tokenizer)[0] == [*parts[0][:2], *parts[0][:2]]  # half of an input for each
    assert (both.truncated, round(both.cut_share * 12)) == (1, 4)


def test_windows_overlap_by_the_stride_and_weigh_by_their_tokens(google_tokenizer: WordPiece) -> None:
    features = encode(google_tokenizer, ["the cat sat on mat", "", "ran"], longest=6, stride=3)
    assert [len(window) for window in pieces_of(features, 0, google_tokenizer)] == [4, 2]
    batch = features.pack(np.array([2, 0, 1]), 0)
    assert batch.lengths == (6, 4, 3, 2)
    assert batch.labels["window_texts"].tolist() == [1, 1, 0, 2]
    assert batch.labels["window_shares"].tolist() == pytest.approx([4 / 6, 2 / 6, 1, 1])
    assert batch.rows.tolist() == batch.labels["labels"].tolist() == [2, 0, 1]


def test_four_megabytes_of_text_are_a_bounded_number_of_windows(google_tokenizer: WordPiece) -> None:
    features = encode(google_tokenizer, ["the cat " * 500_000, "the cat"], longest=128, stride=128)
    assert MOST_TOKENS == 8192
    assert np.diff(features.first).tolist() == [64, 1]
    assert features.lengths.tolist() == [8192, 4]
    assert features.truncated == 1
    assert features.cut_share == pytest.approx(1 - (64 * 126 + 2) / 1_000_002)


@pytest.mark.parametrize("tokens", [1, 30, 10_000])
def test_windows_of_a_text_share_a_batch_and_their_dropout_is_the_same_in_any(
    google_tokenizer: WordPiece, tokens: int
) -> None:
    texts = [" ".join(WORDS[: n % 7 + 1] * (n + 1)) for n in range(9)]
    features = encode(google_tokenizer, texts, longest=9)
    names: dict[tuple[int, ...], np.ndarray] = {}
    batches = [*evaluation_batches(features, tokens), *TrainingBatches(features, 4, 0, tokens, 1, 2).of_step(0)]
    for batch in batches:
        counts = np.bincount(batch.labels["window_texts"].numpy())
        assert counts.tolist() == np.diff(features.first)[batch.rows].tolist()
        dropout.name_rows(batch)
        ends = np.cumsum(batch.lengths)
        for window, own in zip(batch.sequence_rows, np.split(dropout._names.numpy(), ends[:-1]), strict=True):
            np.testing.assert_array_equal(names.setdefault(int(window), own), own)
    assert len(names) == len(features.input_ids)
    assert len({own.tobytes()[:4] for own in names.values()}) == len(names)  # no two windows draw the same
