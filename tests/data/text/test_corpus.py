"""A corpus holds the tokens of its lines."""

from itertools import pairwise

from conftest import GOLDENS
from hypothesis import given, settings
from hypothesis import strategies as st

from bertcli.data.text.corpus import tokenize
from bertcli.data.text.tokenization import WordPiece, load_tokenizer


@given(
    st.lists(
        st.text(
            st.one_of(st.sampled_from("aZé .,'’—\t\u0301\u00a0Σς中[]MASK#"), st.characters(codec="utf-8")), max_size=40
        )
    ),
    st.booleans(),
)
@settings(max_examples=50)
def test_a_corpus_is_tokenized_as_its_lines_are(lines: list[str], cased: bool) -> None:
    tokenizer = WordPiece(load_tokenizer(GOLDENS / "vocab.txt").vocab, cased, "")
    corpus = tokenize([lines, lines[:1]], tokenizer)
    segments = [ids for ids in tokenizer.encode_ids([*lines, *lines[:1]]) if ids]
    assert [corpus.tokens[start:end].tolist() for start, end in pairwise(corpus.bounds)] == segments
    assert all(first < last for first, last in corpus.documents)
