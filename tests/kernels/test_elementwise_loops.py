"""Loops over elements: a matrix is transposed."""

import torch

from bertcli.kernels.cpu import loops
from tests.kernels.exact import random


def test_a_matrix_is_transposed() -> None:
    for shape in ((32, 1), (64, 300), (96, 128)):
        values = random(*shape, dtype=torch.bfloat16).detach()
        found = values.new_empty(shape[::-1])
        loops("elementwise").transpose(values, found.view(torch.int64))
        assert torch.equal(found, values.t())
