"""A command imports of transformers what it uses; what it left out works when somebody wants it."""

import json
import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from bertcli.lifecycle.predict import predict

LEFT_OUT = ("accelerate", "scipy", "sklearn", "sympy", "torch._dynamo", "torch.distributed.tensor")
PREDICTING = """
import json, sys
sys.argv = ["bert", "predict", "--text", "the [MASK] sat", "--model", "runs/pretrain-tiny"]
from bertcli.cli import main, quick_start
{before}
try:
    main.main()
except SystemExit as end:
    assert end.code == 0
"""
AFTERWARDS = """
import torch, transformers
compiled = torch.compile(lambda values: values + 1, backend="eager")
assert compiled(torch.ones(2)).tolist() == [2, 2]
from accelerate import Accelerator
from scipy.optimize import linear_sum_assignment
from torch.distributed.tensor import DTensor
assert transformers.utils.is_accelerate_available() and transformers.utils.is_torch_distributed_available()
"""


def answered(folder: Path, before: str = "", after: str = "") -> tuple[list[dict], str]:
    """The answers of a process, and the rest of what it prints."""
    program = PREDICTING.format(before=before) + after
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=folder)
    first, _, rest = done.stdout.partition("\n")
    return json.loads(first)["fills"], rest.strip()


def test_a_prediction_imports_no_compiler_and_nothing_for_sharded_models_and_answers_alike(at_home: Path) -> None:
    shown = f"print(sorted(set({LEFT_OUT}) & sys.modules.keys()))"
    fills, imported = answered(at_home, after=shown + AFTERWARDS)
    assert imported == "[]"
    assert fills == predict("the [MASK] sat", model="runs/pretrain-tiny").records[0]["fills"]


def test_a_transformers_that_needs_what_is_left_out_is_imported_whole(at_home: Path) -> None:
    shown = "print('torch._dynamo' in sys.modules, 'torch._dynamo.utils' in sys.modules)"
    fills, imported = answered(at_home, "quick_start.HEADS = ['transformers.no_such_module']", shown)
    assert (len(fills), imported) == (5, "True True")


def test_what_the_import_brings_of_the_compiler_does_not_break_it(tmp_path: Path) -> None:
    """As torchvision does, which many have."""
    (tmp_path / "brings.py").write_text("import torch._dynamo.utils")
    program = """
from bertcli.cli import quick_start
quick_start.HEADS = ["brings"]
quick_start._import_quickly(lambda module: None, None)
import torch._inductor.standalone_compile
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path)


def test_a_terminal_says_meanwhile_that_torch_is_loaded(at_home: Path) -> None:
    ours, terminal = pty.openpty()
    command = [sys.executable, "-m", "bertcli", "predict", "--text", "the [MASK] sat", "--model", "runs/pretrain-tiny"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=terminal, cwd=at_home)
    os.close(terminal)
    shown = b""
    with suppress(OSError):  # of a terminal that nobody writes to any more
        while part := os.read(ours, 1024):
            shown += part
    os.close(ours)
    assert process.wait() == 0
    assert b"loading torch" in shown
    assert b"loading transformers" in shown
