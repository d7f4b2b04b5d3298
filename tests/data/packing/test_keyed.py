"""Keyed draws are uniform and independent; every row comes once an epoch."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from bertcli.data.packing.keyed import WindowOrder, permutation, rows_of_step, uniform


@given(st.integers(0, 1000), st.integers(1, 60), st.integers(1, 25))
@settings(max_examples=50)
def test_batches_go_through_every_row_once_an_epoch(seed: int, count: int, batch_size: int) -> None:
    steps = -(-2 * count // batch_size)
    rows = np.concatenate([rows_of_step(seed, step, batch_size, count) for step in range(steps)])
    assert sorted(rows[:count]) == list(range(count))
    assert sorted(rows[count : 2 * count]) == list(range(count))


def test_an_epochs_order_depends_on_seed_and_epoch_only() -> None:
    assert permutation(1, 0, 50).tolist() == permutation(1, 0, 50).tolist()
    assert permutation(1, 0, 50).tolist() != permutation(1, 1, 50).tolist()
    assert permutation(1, 0, 50).tolist() != permutation(2, 0, 50).tolist()


@given(st.integers(0, 9), st.lists(st.integers(0, 30), min_size=1, max_size=9), st.integers(1, 4), st.integers(1, 25))
@settings(max_examples=50)
def test_windows_go_through_every_row_once_an_epoch(seed: int, sizes: list[int], window: int, batch_size: int) -> None:
    starts = (0, *np.cumsum([*sizes, 1]).tolist())
    order, count = WindowOrder(starts, window), starts[-1]
    steps = -(-2 * count // batch_size)
    rows = np.concatenate([order.rows_of_step(seed, step, batch_size)[0] for step in range(steps)])
    assert sorted(rows[:count]) == list(range(count))
    assert sorted(rows[count : 2 * count]) == list(range(count))


def test_a_window_mixes_the_rows_of_its_shards_alone_and_names_the_shards_that_follow() -> None:
    order = WindowOrder(tuple(range(0, 101, 10)), 3)
    of_step = [order.rows_of_step(5, step, 30) for step in range(3)]
    shards = [sorted({int(row) // 10 for row in rows}) for rows, _ in of_step]
    assert [len(each) for each in shards] == [3, 3, 3]
    assert [sorted(coming) for _, coming in of_step[:2]] == shards[1:]
    assert of_step[0][0].tolist() != sorted(of_step[0][0])


def test_keyed_numbers_are_uniform_and_independent() -> None:
    grid = np.meshgrid(np.arange(300), np.arange(300), indexing="ij")
    values = uniform(3, grid[0].ravel(), grid[1].ravel()).reshape(300, 300)
    assert values.min() >= 0
    assert values.max() < 1
    assert np.histogram(values, 10, (0, 1))[0].std() < 300
    assert abs(np.corrcoef(values[:-1].ravel(), values[1:].ravel())[0, 1]) < 0.02
    assert abs(np.corrcoef(values[:, :-1].ravel(), values[:, 1:].ravel())[0, 1]) < 0.02
