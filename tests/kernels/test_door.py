"""Kernels have one door; without them a training has the same losses, and numba may be absent."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from conftest import write_reviews

import bertcli
from bertcli.kernels import faster
from bertcli.lifecycle.finetune import finetune
from bertcli.lifecycle.pretrain import pretrain
from bertcli.models.dropout import Dropout, dropout, next_mask, seed_dropout

PACKAGE = Path(bertcli.__file__).parent
TOLERANCE = 2e-4  # of losses, which are rounded to four decimals


def test_kernels_are_imported_from_elsewhere_only_through_the_door() -> None:
    others = [path for path in PACKAGE.rglob("*.py") if (PACKAGE / "kernels") not in path.parents]
    for path in others:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"bertcli\.kernels\.|kernels import (cpu|gpu|layers|products|loops)", text), path


@pytest.mark.parametrize("precision", ["float32", pytest.param("bfloat16", marks=pytest.mark.torture)])
def test_a_training_without_kernels_has_the_losses_of_one_with_them(
    at_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, precision: str
) -> None:
    reviews = write_reviews(tmp_path / "reviews.csv")
    losses = {}
    for kernels in ("on", "off"):
        monkeypatch.setenv("BERT_KERNELS", kernels)
        out, options = str(tmp_path / kernels), {"precision": precision, "batch_size": 8}
        first = pretrain(size="tiny", steps=10, log_steps=1, seed=1, out=out, **options).losses
        second = finetune(str(reviews), from_=out, epochs=1, out=out + "-tuned", **options).losses
        losses[kernels] = [*first, *second]
    assert len(losses["on"]) >= 20
    assert losses["off"] == pytest.approx(losses["on"], abs=TOLERANCE * (1 if precision == "float32" else 10))


def test_a_function_is_plain_where_kernels_are_off_or_do_not_suit(monkeypatch: pytest.MonkeyPatch) -> None:
    @faster
    def drop(values: torch.Tensor, mask: tuple) -> str:
        return "plain"

    mask, values = next_mask(0.0, 2), torch.ones(2, 2)
    assert drop(values.double(), mask) == "plain"
    assert drop(values, mask) != "plain"
    monkeypatch.setenv("BERT_KERNELS", "off")
    assert drop(values, mask) == "plain"


WITHOUT_NUMBA = """
import logging, sys
logging.basicConfig(level=20)

class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("numba", "llvmlite"):
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)

sys.meta_path.insert(0, Hide())
import torch
from bertcli.models.dropout import dropout, seed_dropout
seed_dropout(7)
for _ in range(2):
    print((dropout(torch.ones(5, 9), 0.5, training=True) > 0).int().tolist())
"""


def test_without_numba_the_masks_are_the_same_and_one_line_says_that_it_is_slower() -> None:
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    command = [sys.executable, "-c", WITHOUT_NUMBA]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    seed_dropout(7)
    wanted = [(dropout(torch.ones(5, 9), 0.5, training=True) > 0).int().tolist() for _ in range(2)]
    assert done.stdout.splitlines() == [str(mask) for mask in wanted]
    assert done.stderr.count("pip install 'bertcli[fast]'") == 1


@pytest.mark.slow
def test_numba_is_not_imported_before_a_kernel_runs_unless_it_is_asked_for() -> None:
    script = (
        "import sys, torch, bertcli.models.heads, bertcli.training.optimizer, bertcli.kernels;"
        "from bertcli.models.dropout import Dropout; Dropout(0.5).eval()(torch.ones(3));"
        "before = 'numba' in sys.modules; bertcli.kernels.load();"  # as a server does when it starts
        "sys.exit(before or 'numba' not in sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    assert subprocess.run([sys.executable, "-c", script], env=environment, check=False).returncode == 0
    assert Dropout(0.5).next_mask(1)[1] == 1 << 15


@pytest.mark.parametrize(("given", "threads"), [({}, 1), ({"OMP_NUM_THREADS": "2"}, 2)])
def test_torch_has_the_threads_that_a_container_may_use_unless_told_otherwise(
    given: dict[str, str], threads: int
) -> None:
    kept = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    command = [sys.executable, "-c", "import bertcli.kernels, torch; print(torch.get_num_threads())"]
    env = {**kept, "LOKY_MAX_CPU_COUNT": "1", **given}  # as a limit of a container's time
    assert int(subprocess.check_output(command, env=env)) == threads
