"""The nearest vectors are those of sorting all cosines, in blocks of any size."""

import itertools
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertcli.lifecycle.similarity import nearest as nearest_module
from bertcli.lifecycle.similarity import vector_cache
from bertcli.lifecycle.similarity.nearest import near_pairs, nearest
from bertcli.lifecycle.similarity.vector_cache import TextVectors


def unit_vectors(count: int, width: int = 8, seed: int = 0) -> np.ndarray:
    vectors = np.random.default_rng(seed).standard_normal((count, width), dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_no_cosine_is_above_one_and_of_equal_rows_the_first_comes_first() -> None:
    vectors = np.full((40, 3), np.float32(3**-0.5))
    vectors[1::2] *= np.float32(1 + 1e-6)
    cosines, places = nearest(TextVectors(vectors), vectors[:1], 3)
    assert (cosines <= 1).all()
    assert places.tolist() == [[0, 1, 2]]
    near, pairs, _ = near_pairs(TextVectors(vectors), 0.9, 2, lambda _: None)
    assert (near <= 1).all()
    assert pairs.tolist() == [[0, 1], [0, 2]]


@settings(max_examples=25)
@given(st.integers(1, 60), st.integers(1, 8), st.integers(1, 70), st.integers(1, 30))
def test_blocks_give_what_sorting_all_cosines_gives(rows: int, queries: int, count: int, block: int) -> None:
    vectors, asked = unit_vectors(rows), unit_vectors(queries)[::-1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vector_cache, "BLOCK_ROWS", block)
        patch.setattr(nearest_module, "QUERIES_AT_ONCE", 3)
        patch.setattr(nearest_module, "PAIR_ROWS", block)
        cosines, places = nearest(TextVectors(vectors), asked, count)
        near, pairs, total = near_pairs(TextVectors(vectors), 0.2, count, lambda _: None)
    every = asked @ vectors.T
    np.testing.assert_allclose(cosines, -np.sort(-every, axis=1)[:, :count], atol=1e-6)
    np.testing.assert_allclose(np.take_along_axis(every, places, 1), cosines, atol=1e-6)
    products = vectors @ vectors.T
    expected = sorted((products[i, j] for i, j in itertools.combinations(range(rows), 2)), reverse=True)
    expected = [cosine for cosine in expected if cosine >= 0.2]
    assert total == len(expected)
    np.testing.assert_allclose(near, expected[:count], atol=1e-6)
    assert all(first < second for first, second in pairs.tolist())


SEARCH = """
import re, sys, time
from pathlib import Path
import numpy as np
from bertcli.lifecycle.similarity import vector_cache
from bertcli.lifecycle.similarity.nearest import nearest
query, rows = np.load("query.npy"), int(sys.argv[1])
started = time.perf_counter()
_, places = vector_cache.search(Path("vectors"), {"rows": rows}, sys.exit, lambda kept: nearest(kept, query, 10))
seconds = time.perf_counter() - started
peak = re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]  # ru_maxrss has the parent's
print(places[0, 0], seconds, 1024 * int(peak))
"""


@pytest.mark.torture
def test_a_million_rows_take_a_second_and_three_gigabytes(tmp_path: Path) -> None:
    """Of one query, with a margin for a busy machine; vectors that are kept, so that they are read and checked too."""
    rows = 1_000_000
    values = np.concatenate([unit_vectors(50_000, 384, seed) for seed in range(rows // 50_000)])
    np.save(tmp_path / "query.npy", values[rows // 2 : rows // 2 + 1])
    vector_cache._keep(tmp_path / "vectors", {"rows": rows}, TextVectors(values))
    command = [sys.executable, "-c", SEARCH, str(rows)]
    place, seconds, memory = subprocess.check_output(command, cwd=tmp_path, text=True).split()
    assert int(place) == rows // 2
    assert float(seconds) < 3
    assert int(memory) < 3e9
