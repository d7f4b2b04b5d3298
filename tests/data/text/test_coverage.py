"""Coverage counts words as the original splits them."""

from bertcli.data.text.coverage import measure_coverage
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
