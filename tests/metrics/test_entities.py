"""Entities are found and scored as seqeval does, in its default mode and in the strict mode of each scheme."""

import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertcli.errors import UserError
from bertcli.metrics.entities import Entities
from bertcli.metrics.tags import entities

SCHEMES = {"default": "BIES", "IOB1": "BI", "IOB2": "BI", "IOBES": "BIES"}
TYPES = ("", "-PER", "-LOC", "-MISC-OTHER")


def compute(predicted: list[list[str]], true: list[list[str]], scheme: str = "default") -> dict[str, float]:
    return Entities(scheme, keep_in_memory=True).compute(predictions=predicted, references=true)


def test_only_whole_entities_of_the_right_type_count() -> None:
    true = [["B-PER", "I-PER", "O", "B-LOC", "B-LOC"], ["O", "B-ORG"], []]
    predicted = [["B-PER", "I-PER", "O", "B-LOC", "I-LOC"], ["O", "B-PER"], []]
    scores = compute(predicted, true)
    assert scores["precision"] == pytest.approx(100 / 3)
    assert scores["recall"] == 25
    assert scores["f1"] == pytest.approx(200 / 7)
    assert (scores["PER_precision"], scores["PER_recall"], scores["ORG_f1"]) == (50, 100, 0)


@pytest.mark.parametrize(
    ("scheme", "found"),
    [
        ("default", [("PER", 0, 1), ("PER", 3, 3), ("LOC", 4, 4), ("_", 5, 6)]),
        ("IOB1", [("PER", 0, 1), ("LOC", 4, 4), ("_", 6, 6)]),
        ("IOB2", [("PER", 3, 3), ("_", 5, 6)]),
    ],
)
def test_a_scheme_says_where_entities_start(scheme: str, found: list[tuple[str, int, int]]) -> None:
    assert list(entities(["I-PER", "I-PER", "O", "B-PER", "I-LOC", "B", "I"], scheme)) == found


def test_iobes_marks_ends_and_single_words() -> None:
    tags = ["B-PER", "E-PER", "S-LOC", "B-LOC", "O", "E-LOC"]
    assert list(entities(tags, "IOBES")) == [("PER", 0, 1), ("LOC", 2, 2)]
    assert list(entities(tags))[2:] == [("LOC", 3, 3), ("LOC", 5, 5)]


def test_bilou_and_bmes_are_read_as_iobes() -> None:
    tags = ["B-PER", "I-PER", "L-PER", "U-LOC", "B-PER", "M-PER", "E-PER"]
    assert list(entities(tags)) == [("PER", 0, 2), ("LOC", 3, 3), ("PER", 4, 6)]


def test_no_entity_at_all_scores_0() -> None:
    assert compute([["O", "O"]], [["O", "O"]]) == {"f1": 0, "precision": 0, "recall": 0}


@pytest.mark.parametrize(("tag", "scheme"), [("PER", "default"), ("", "default"), ("E-PER", "IOB2"), ("BI-X", "IOBES")])
def test_a_tag_that_is_none_of_the_scheme_is_refused(tag: str, scheme: str) -> None:
    with pytest.raises(UserError, match="is not a tag of an entity"):
        compute([[tag]], [["O"]], scheme)


def test_every_word_needs_a_tag() -> None:
    with pytest.raises(UserError, match="Sentence 2 has 2 words, but 1 predicted tags"):
        compute([["O"], ["O"]], [["O"], ["O", "O"]])


@pytest.mark.parametrize("scheme", SCHEMES)
@given(data=st.data())
@settings(max_examples=60)
def test_scores_are_seqevals_on_valid_and_invalid_tags(scheme: str, data: st.DataObject) -> None:
    seqeval = pytest.importorskip("seqeval.metrics", reason="seqeval is not installed")
    schemes = pytest.importorskip("seqeval.scheme")
    tags = ["O", *(prefix + kind for prefix in SCHEMES[scheme] for kind in TYPES)]
    pairs = st.lists(st.tuples(st.sampled_from(tags), st.sampled_from(tags)), max_size=12)
    sentences = data.draw(st.lists(pairs, min_size=1, max_size=5))
    true = [[pair[0] for pair in sentence] for sentence in sentences]
    # Half of the predictions are right, so that there is something to score.
    predicted = [[pair[row % 2] for row, pair in enumerate(sentence)] for sentence in sentences]
    mode = {} if scheme == "default" else {"mode": "strict", "scheme": getattr(schemes, scheme)}
    scores = compute(predicted, true, scheme)
    kinds = sorted(
        {kind for side in (true, predicted) for sentence in side for kind, _, _ in entities(sentence, scheme)}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in ("f1", "precision", "recall"):
            theirs = getattr(seqeval, f"{name}_score")
            each = theirs(true, predicted, average=None, **mode)
            assert scores[name] == pytest.approx(100 * theirs(true, predicted, **mode))
            assert [scores[f"{kind}_{name}"] for kind in kinds] == pytest.approx([100 * score for score in each])
