"""A command that was killed anywhere goes on when it is given again, to the files of an undisturbed one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bertcli.cli.main import main

PROJECT = Path(__file__).parents[1]

TEXT = "\n\n".join(
    "\n".join(f"the {word} of the {place} is {n} miles from the {word}." for n in range(4))
    for word in ("river", "bank", "house", "tree")
    for place in ("north", "south", "east")
)
ROWS = "text,label\n" + "".join(f"a good film number {n},yes\na bad film number {n},no\n" for n in range(20))
DATA = [
    "make-pretraining-data",
    "a.txt",
    "--max-seq-length",
    "32",
    "--dupe-factor",
    "1",
    "--shards",
    "2",
    "--workers",
    "1",
]
OTHER_DATA = [*DATA, "--overwrite", "--seed", "7"]
TRAINING = ["--size", "tiny", "--batch-size", "16", "--precision", "float32", "--resume", "--save-steps", "1"]
COMMANDS = {
    "build-vocab": ["build-vocab", "a.txt", "--vocab-size", "120"],
    "make-pretraining-data": [*DATA, "--out", "other-data"],
    "overwrite": OTHER_DATA,
    "pretrain": ["pretrain", *TRAINING, "--steps", "3", "--eval-steps", "2", "--out", "runs/p"],
    "finetune": [
        "finetune",
        "rows.csv",
        *TRAINING,
        "--from",
        "scratch",
        "--tokenizer",
        "vocab",
        "--epochs",
        "2",
        "--out",
        "runs/f",
    ],
    "predict": ["predict", "--file", "rows.csv", "--output", "answers.csv", "--model", "runs/to-use"],
}
TO_USE = [*COMMANDS["finetune"][:-1], "runs/to-use"]  # the run whose model predicts
ENVIRONMENT = {
    **os.environ,
    "OMP_NUM_THREADS": "1",
    "BERT_KERNELS": "off",
    "HF_HUB_OFFLINE": "1",
    "PYTHONPATH": str(PROJECT),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with text, a vocabulary, pre-training data, labelled rows, a fine-tuned run and an older file of predictions."""
    folder = tmp_path_factory.mktemp("killed") / "start"
    folder.mkdir()
    (folder / "a.txt").write_text(TEXT)
    (folder / "rows.csv").write_text(ROWS)
    (folder / "answers.csv").write_text("older\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("BERT_KERNELS", "off")
        for command in (COMMANDS["build-vocab"], DATA, TO_USE):
            patch.setattr(sys, "argv", ["bert", *command])
            with pytest.raises(SystemExit, match=r"^0$"):
                main()
    return folder


def assert_each_ends_well(folder: Path, tmp_path: Path, places: dict[str, int]) -> None:
    start = tmp_path / "start"
    start.symlink_to(folder)
    asked = [part for name, every in places.items() for part in ("+", str(every), *COMMANDS[name])]
    command = [sys.executable, "-m", "tests.killing", str(start), *asked[1:]]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, cwd=PROJECT, check=False)
    lines = done.stdout.splitlines()
    assert (done.returncode, len(lines)) == (0, len(places)), done.stdout + done.stderr
    assert all(line.endswith(" tried") for line in lines)


@pytest.mark.slow
def test_commands_killed_at_some_places_end_as_undisturbed_ones(folder: Path, tmp_path: Path) -> None:
    places = {"build-vocab": 50, "make-pretraining-data": 200, "predict": 16, "pretrain": 400, "finetune": 500}
    assert_each_ends_well(folder, tmp_path, places)


@pytest.mark.torture
@pytest.mark.parametrize("every", [1, -100])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_killed_at_any_place_ends_as_an_undisturbed_one(
    folder: Path, tmp_path: Path, name: str, every: int
) -> None:
    assert_each_ends_well(folder, tmp_path, {name: every})
