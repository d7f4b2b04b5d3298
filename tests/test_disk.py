# ruff: noqa: F811 - a fixture of another file
"""A disk that is full or may not be written, and folders that vanish: one line, and what was there before is intact."""

import filecmp
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from test_killed import COMMANDS, ENVIRONMENT, PROJECT, folder  # noqa: F401

from bertcli import pretrain
from bertcli.errors import RunError
from bertcli.training.loop import Training

# Runs the commands that it is given in processes forked from one that has imported everything.
DRIVER = """
import json, sys
from pathlib import Path
from tests.killing import PRELOADED, run
for module in PRELOADED:
    __import__(module)
for line in sys.stdin:
    command, folder = json.loads(line)
    code, _ = run(command, Path(folder))
    print(json.dumps([code, Path(folder).with_name("words").read_text()]), flush=True)
"""
FREE = {0: list(COMMANDS), 65_536: ["pretrain", "finetune"]}
Bert = Callable[[list[str], Path], tuple[int, str]]


@pytest.fixture(scope="module")
def bert() -> Iterator[Bert]:
    """Runs a command in a folder, and returns its exit code and its words."""
    command = [sys.executable, "-c", DRIVER]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=PROJECT, env=ENVIRONMENT, **pipes) as driver:

        def run(command: list[str], folder: Path) -> tuple[int, str]:
            print(json.dumps([command, str(folder)]), file=driver.stdin, flush=True)
            code, words = json.loads(driver.stdout.readline())
            return code, words

        yield run
        driver.stdin.close()


def mount(*options: str) -> None:
    """Mount something, or skip."""
    if os.geteuid() or subprocess.run(["mount", *options], capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a small file system")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A folder to mount something on."""
    place = tmp_path / "disk"
    place.mkdir()
    yield place
    while subprocess.run(["umount", str(place)], capture_output=True, check=False).returncode == 0:
        pass


def is_one_line(words: str) -> bool:
    """Whether an error is one line with a hint, and no traceback."""
    return words.count("error: ") == 1 and words.count("hint: ") == 1 and "Traceback" not in words


def differ(start: Path, place: Path) -> list[str]:
    """The files of a folder that are no longer as they were."""
    names = [str(path.relative_to(start)) for path in start.rglob("*") if path.is_file() and ".arrow" not in path.parts]
    return [
        name
        for name in names
        if not (place / name).exists() or not filecmp.cmp(start / name, place / name, shallow=False)
    ]


@pytest.mark.torture
def test_a_full_disk_is_one_line_and_the_command_goes_on_when_there_is_room(
    folder: Path, disk: Path, bert: Bert
) -> None:
    mount("-t", "tmpfs", "-o", "size=64m", "tmpfs", str(disk))
    shutil.copytree(folder, disk, dirs_exist_ok=True)
    filler = disk / "filler"
    for free, commands in FREE.items():  # bytes, too few for the command
        filler.write_bytes(b"\0" * (shutil.disk_usage(disk).free - free))
        for name in commands:
            code, words = bert(COMMANDS[name], disk)
            assert (code, is_one_line(words)) == (1, True), (free, name, words)
            assert differ(folder, disk) == [], (free, name)
        filler.unlink()
    for name, command in COMMANDS.items():
        code, words = bert(command, disk)
        assert code == 0, (name, words)


@pytest.mark.slow
def test_a_disk_that_may_not_be_written_is_one_line(folder: Path, disk: Path, tmp_path: Path, bert: Bert) -> None:
    shutil.copytree(folder, tmp_path / "copy")
    mount("--bind", str(tmp_path / "copy"), str(disk))
    mount("-o", "remount,bind,ro", str(disk))
    for name, command in COMMANDS.items():
        code, words = bert(command, disk)
        assert (code, is_one_line(words)) in ((1, True), (2, True)), (name, words)


def test_a_run_folder_that_is_removed_is_one_line(
    at_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = Training._step

    def removing(self: Training, number: int, *others: object) -> object:
        if number == 2:
            shutil.rmtree(tmp_path / "run")
        return step(self, number, *others)

    monkeypatch.setattr(Training, "_step", removing)
    for more in ({"log_steps": 1}, {"log_steps": 9, "save_steps": 1}):
        with pytest.raises(RunError, match="was removed while the run was writing to it"):
            pretrain(size="tiny", steps=5, batch_size=4, out=str(tmp_path / "run"), **more)
        assert not (tmp_path / "run").exists()
