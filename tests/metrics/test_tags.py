"""Entities are sorted by what is wrong with them."""

import pytest

from bertcli.metrics.tags import entity_outcomes


@pytest.mark.parametrize(
    ("given", "true", "sorts"),
    [
        ("B-PER I-PER O", "B-PER I-PER O", ["right"]),
        ("B-LOC I-LOC O", "B-PER I-PER O", ["wrong type"]),
        ("B-PER O O", "B-PER I-PER O", ["wrong boundaries"]),
        ("B-LOC O O", "B-PER I-PER O", ["wrong boundaries and type"]),
        ("O O O", "B-PER I-PER O", ["missed"]),
        ("O O B-LOC", "B-PER O O", ["missed", "not an entity"]),
    ],
)
def test_each_entity_is_right_or_wrong_in_one_way(given: str, true: str, sorts: list[str]) -> None:
    assert list(entity_outcomes(given.split(), true.split())) == sorts
