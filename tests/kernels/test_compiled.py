"""What is compiled gives the same bits wherever arrays lie; it is kept for these sources and this CPU, where it can be."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from bertcli.kernels import updates
from bertcli.kernels.cpu import loops
from bertcli.kernels.loops import compiled
from bertcli.kernels.loops.compiled import array, digest
from tests.kernels.exact import PRECISIONS, random

ROOT = Path(__file__).parents[2]


def compiled_loop(name: str):
    """A compiled loop by its name; of those that take many arrays by their addresses, what calls them for one."""
    if name in ("square_sums", "update_weights"):
        return lambda *arrays: getattr(updates, name)([arrays])
    return next(
        getattr(loops(of), name)
        for of in ("elementwise", "attention", "fused_attention", "distances", "inference")
        if hasattr(loops(of), name)
    )


ROW, IN_PRECISION = object(), object()  # of float32, and of the precision that a model is in
NUMBER = np.float32(0.5)
FLAGS = np.arange(64) % 3 == 0


def is_row(argument: object) -> bool:
    """Whether an argument stands for a row that lies somewhere."""
    return argument is ROW or argument is IN_PRECISION


@pytest.mark.parametrize("columns", [9, 16, 17, 27, 33, 64])
@PRECISIONS
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("norm_row", (*[IN_PRECISION] * 3, NUMBER, IN_PRECISION)),
        ("_norm_backward", (*[IN_PRECISION] * 2, (NUMBER, NUMBER), IN_PRECISION, *[ROW] * 3)),
        ("_gelu", (*[IN_PRECISION] * 3, False)),
        ("_gelu", (*[IN_PRECISION] * 3, True)),
        ("_exponentials", (ROW, NUMBER)),
        ("_divided", (ROW, NUMBER, IN_PRECISION)),
        ("_times_and_sum", (*[IN_PRECISION] * 3, ROW)),
        ("sum_row", (*[IN_PRECISION] * 2, ROW, *[IN_PRECISION] * 2)),
        ("_sum_backward", (*[ROW] * 2, *[IN_PRECISION] * 2, ROW)),
        ("softmax_row", (ROW, NUMBER, NUMBER, IN_PRECISION)),
        ("_hide", (ROW, *[FLAGS] * 2, NUMBER)),
        ("_along", (*[IN_PRECISION] * 2, ROW)),
        ("_slopes", (*[IN_PRECISION] * 2, ROW, NUMBER, ROW)),
        ("_of_others", (ROW, FLAGS)),
        ("_softmax_backward", (*[IN_PRECISION] * 2, ROW, NUMBER)),
        ("_adam", (ROW, IN_PRECISION, *[ROW] * 2, IN_PRECISION, (NUMBER,) * 9)),
    ],
)
def test_to_the_bit_it_does_not_matter_where_the_rows_lie(
    name: str, arguments: tuple, dtype: torch.dtype, columns: int
) -> None:
    # Where rows lie next to each other, what LLVM made goes on without vectors, which must not add up in another order.
    kinds = [argument for argument in arguments if is_row(argument)]
    values = random(len(kinds), columns).abs().detach()
    found, chance = set(), np.random.default_rng(0)
    for gap in (0, 4, 16, 1000) * 20:
        room = torch.zeros(len(kinds), columns + gap)
        placed = []
        for kind, place, value in zip(kinds, chance.permutation(len(kinds)), values, strict=True):
            row = room[place] if kind is ROW else room[place].view(dtype)  # of bfloat16, it fills half of its place
            row[:columns] = value
            placed.append(row[:columns])
        given = iter(placed)
        takes = (array(next(given)) if is_row(argument) else argument for argument in arguments)
        returned = compiled_loop(name)(*takes)
        found.add((returned, *(array(row).tobytes() for row in placed)))
    assert len(found) == 1


class Lies(NamedTuple):
    """An array somewhere, of the precision that a model is in, or of float32 always."""

    shape: tuple[int, ...]
    is_float32: bool = False


# Of one row, for those of more lie apart: what is read and written of a row can be neighbours.
MATRIX, VECTOR, SCORES, FLAT = (Lies(shape) for shape in ((1, 33), (33,), (2, 33, 33), (5000,)))
MASK = (np.uint64(7), 6554, np.float32(10 / 9), np.arange(47, dtype=np.uint32))
LENGTHS, LABELS = torch.tensor([33, 14]), torch.tensor([5])
HEADS, TOKENS, OF_TOKENS = Lies((47, 2, 20)), Lies((47, 1, 2, 20)), ((0, 0, 0), LENGTHS)
WEIGHTS = Lies((2 * (33 * 48 + 14 * 16),))  # at most


@PRECISIONS
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("drop", (MATRIX, MATRIX, MASK)),
        ("gelu", (MATRIX, VECTOR, MATRIX, False)),
        ("gelu_backward", (*[MATRIX] * 3, Lies((1, 33), True))),
        ("add_and_norm", (MATRIX, VECTOR, MATRIX, *[VECTOR] * 2, *[MATRIX] * 2, Lies((1, 2), True), 1e-12, MASK)),
        (
            "add_and_norm_backward",
            (*[MATRIX] * 2, Lies((1, 2), True), VECTOR, *[MATRIX] * 2, Lies((1, 3, 33), True), MASK),
        ),
        ("add_and_norm_in_place", (MATRIX, VECTOR, MATRIX, *[VECTOR] * 2, 1e-12)),
        ("softmax", (SCORES, LENGTHS, SCORES, 0.25, MASK, False)),
        ("softmax", (SCORES, LENGTHS, SCORES, 0.25, MASK, True)),
        ("softmax_backward", (SCORES, SCORES, LENGTHS, SCORES, 0.25, MASK, False)),
        ("softmax_backward", (SCORES, SCORES, LENGTHS, SCORES, 0.25, MASK, True)),
        ("log_sums", (MATRIX, Lies((1,), True))),
        ("cross_entropy_backward", (MATRIX, LABELS, Lies((1,), True), 0.5, MATRIX)),
        ("square_sums", (MATRIX, Lies((1,), True))),
        ("update_weights", (Lies((5000,), True), FLAT, *[Lies((5000,), True)] * 2, FLAT, (NUMBER,) * 9)),
        ("forward", (*[TOKENS] * 3, *OF_TOKENS, 0.25, MASK, True, WEIGHTS, HEADS)),
        ("backward", (HEADS, *[TOKENS] * 3, *OF_TOKENS, 0.25, MASK, WEIGHTS, *[TOKENS] * 3)),
    ],
)
def test_to_the_bit_it_does_not_matter_where_the_arrays_of_a_kernel_lie(
    name: str, arguments: tuple, dtype: torch.dtype
) -> None:
    found, chance = set(), np.random.default_rng(0)
    for gap in (0, 4, 64, 1000) * 20:
        room, first, placed = torch.empty(200_000, dtype=torch.uint8), 4 * chance.integers(16), list(arguments)
        for place in chance.permutation(len(arguments)):
            if isinstance(lies := arguments[place], Lies):
                value = random(*lies.shape, dtype=torch.float32 if lies.is_float32 else dtype).detach().abs()
                bits = room[first : first + value.nbytes].view(value.dtype)
                placed[place] = bits.view(value.shape).copy_(value)
                first += -(-value.nbytes // 4) * 4 + gap
        compiled_loop(name)(*placed)
        found.add(b"".join(array(each).tobytes() for each in placed if isinstance(each, Tensor)))
    assert len(found) == 1


DROP = """
import torch
from bertcli.models.dropout import dropout
dropout(torch.ones(4, 4), 0.5, training=True)
"""


@pytest.mark.torture
def test_of_two_processes_that_want_a_kernel_one_compiles_it(tmp_path: Path) -> None:
    cache = {"NUMBA_CACHE_DIR": str(tmp_path), "NUMBA_DEBUG_CACHE": "1"}
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **cache}
    command = [sys.executable, "-c", DROP]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(2)]
    kept = [line for each in both for line in each.communicate()[0].splitlines() if "data saved" in line]
    assert [each.returncode for each in both] == [0, 0]
    assert len([line for line in kept if "elementwise.drop-" in line]) == 1


def run_drop(**environment: str) -> subprocess.CompletedProcess[str]:
    """Drop out in a process that says what it has to."""
    script = "import logging; logging.basicConfig(level=20)" + DROP
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True)


@pytest.mark.torture
def test_where_compiled_kernels_cannot_be_kept_a_run_compiles_them_and_says_so_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = run_drop(NUMBA_CACHE_DIR="", XDG_CACHE_HOME=str(tmp_path / "file"))
    assert done.stderr.count("each run compiles its kernels") == 1
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


@pytest.mark.torture
def test_compiled_kernels_are_kept_in_the_cache_folder_of_a_user_and_used_again(tmp_path: Path) -> None:
    for saved, loaded in ((True, False), (False, True)):
        done = run_drop(NUMBA_CACHE_DIR="", XDG_CACHE_HOME=str(tmp_path), NUMBA_DEBUG_CACHE="1")
        assert ("data saved" in done.stdout, "data loaded" in done.stdout) == (saved, loaded)
        assert done.stderr.count("compiling loops for this CPU") == saved
    (folder,) = (tmp_path / "bertcli" / "kernels").iterdir()
    assert list(folder.glob("**/*.nbc"))


@pytest.mark.torture
def test_other_sources_or_another_cpu_have_another_folder(tmp_path: Path) -> None:
    sources = shutil.copytree(Path(compiled.__file__).parent, tmp_path / "kernels")
    known = digest(sources, "cpu +avx2")
    assert known == digest(Path(compiled.__file__).parent, "cpu +avx2")
    assert known != digest(sources, "cpu +avx2,+avx512f")
    with (sources / "elements.py").open("a") as file:
        file.write("# another version\n")
    assert known != digest(sources, "cpu +avx2")
    assert run_drop(NUMBA_CACHE_DIR=str(tmp_path / "one"))
    assert run_drop(NUMBA_CACHE_DIR=str(tmp_path / "one"), NUMBA_CPU_NAME="generic", NUMBA_CPU_FEATURES="")
    assert len(list((tmp_path / "one").iterdir())) == 2
