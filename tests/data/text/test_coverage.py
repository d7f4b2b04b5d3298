"""Coverage counts words as the original splits them, and unknown tokens; many of these are said."""

import numpy as np

from bertcli.data.text.coverage import Unknown, count_unknown, measure_coverage
from bertcli.data.text.tokenization import WordPiece


def test_coverage_counts_words_as_the_original_splits_them(google_tokenizer: WordPiece) -> None:
    texts = ["The tree-house!", "", "☃ " + "a" * 201]
    tokens = [token for text in texts for token in google_tokenizer.backend.encode(text).tokens]
    assert tokens.count("[UNK]") == 2
    covered = measure_coverage(iter(texts), google_tokenizer)
    assert (covered.lines, covered.words) == (3, 7)
    assert covered.unknown_percent == round(100 * 2 / 7, 4)
    assert covered.tokens_per_word == round(len(tokens) / 7, 4)
    assert measure_coverage([], google_tokenizer).words == 0


def test_unknown_tokens_are_counted_without_those_around_the_texts_and_few_are_not_said(
    google_tokenizer: WordPiece,
) -> None:
    unk, cls, sep = (google_tokenizer.special(name) for name in ("unk", "cls", "sep"))
    chunks = [np.array([cls, 5, unk, sep, cls, unk, 7, 8, sep]), np.array([cls, 9, sep])]
    assert count_unknown(chunks, google_tokenizer) == Unknown(2, 6)
    assert str(Unknown(2, 6)) == "33 % of the tokens are [UNK], unknown to the vocabulary"
    assert str(Unknown(1, 100)) == str(Unknown()) == ""
