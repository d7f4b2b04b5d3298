"""Token embeddings start from the neighbours in the data; the start is a function of data and seed."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from transformers import AutoModelForPreTraining

from bertcli.data.pretraining.shards import load_pretraining_examples
from bertcli.families import family_of
from bertcli.models.dropout import set_dropout
from bertcli.models.embeddings import DEVIATION, WINDOW, count_neighbours, factorize, start_from_neighbours
from bertcli.models.loading import build_model

V = 12


def flat(rows: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([i for row in rows for i in row], dtype=np.int64), np.array([len(row) for row in rows])


@given(st.lists(st.lists(st.integers(0, V - 1), min_size=1, max_size=15), min_size=1, max_size=6), st.integers(1, 3))
@settings(max_examples=50)
def test_neighbours_are_counted_within_a_row_by_their_distance(rows: list[list[int]], size: int) -> None:
    plain = np.zeros((V, V))
    for row in rows:
        for i, one in enumerate(row):
            for j, other in enumerate(row):
                if i != j and abs(i - j) <= WINDOW:
                    plain[one, other] += 1 / abs(i - j)
    chunks = [flat(rows[start : start + size]) for start in range(0, len(rows), size)]
    np.testing.assert_allclose(count_neighbours(chunks, V).toarray(), plain, rtol=1e-5)


def test_tokens_of_the_same_neighbours_are_near_and_unseen_ones_stay() -> None:
    draw = np.random.default_rng(0)
    rows = [
        [draw.choice(group), *draw.permutation(group)[:2], int(draw.choice([one, other]))]
        for group, one, other in (([0, 1, 2], 6, 7), ([3, 4, 5], 8, 9))
        for _ in range(300)
    ]
    embedding = nn.Embedding(V, 4)
    before = embedding.weight.detach().clone()
    assert start_from_neighbours(embedding, [flat(rows)], seed=0) == 10
    after = embedding.weight.detach()
    assert (after[10:] == before[10:]).all()
    assert after[:10].std(correction=0).item() == pytest.approx(DEVIATION, rel=1e-4)
    alike = nn.functional.cosine_similarity(after[6], after[7], dim=0)
    assert alike > 0.9 > 0.5 > nn.functional.cosine_similarity(after[6], after[8], dim=0)


def test_the_start_is_a_function_of_counts_and_seed() -> None:
    counts = count_neighbours([flat([[0, 1, 2, 3, 4, 5, 6, 7, 1, 3, 5]])], V)
    assert (factorize(counts, 3, seed=1) == factorize(counts, 3, seed=1)).all()


def test_dropout_of_a_run_leaves_the_configuration_to_those_who_fine_tune(at_home: Path, tmp_path: Path) -> None:
    tokenizer = load_pretraining_examples("pretraining-data", 0).tokenizer
    model = build_model(AutoModelForPreTraining, family_of("bert"), "tiny", tokenizer, {"initializer_range": 0.05}, 0)
    set_dropout(model, 0.0)
    assert {module.p for module in model.modules() if isinstance(module, nn.Dropout)} == {0.0}
    assert model.config.hidden_dropout_prob == 0.1
    assert model.bert.encoder.layer[0].output.dense.weight.std().item() == pytest.approx(0.05 * 0.88, rel=0.02)
