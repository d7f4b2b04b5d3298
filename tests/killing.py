"""Kills a command at each of its writes, syncs, renames and removals in turn, and runs it again.

`python -m tests.killing FOLDER EVERY COMMAND... [+ EVERY COMMAND...]` works in copies of FOLDER; it prints how many places there
are, and a line for each place, or each EVERY-th, from which the same command does not end with the same files, or at which a
file that was there before is neither as it was nor whole. `-N` for EVERY kills N times at random moments instead, one to three
times before the command may end.
"""

import filecmp
import os
import random
import shutil
import signal
import sys
import time
from itertools import groupby
from pathlib import Path

from bertcli.cli.main import main
from bertcli.data import atomic

EVENTS = {"open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "shutil.rmtree"}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
RESULTS = ("*.safetensors", "*.parquet", "vocab.txt", "manifest.json", "answers.csv")
KILLED, PRELOADED = (
    137,
    ("torch", "transformers", "datasets", "evaluate", "accelerate", "bertcli.lifecycle.finetuning.run"),
)


class Counter:
    """Counts the places at which a process may be killed, and kills it at one of them."""

    def __init__(self, place: int, count_file: Path) -> None:
        self.place, self.count, self.count_file = place, 0, count_file
        self.here = str(Path.cwd())

    def reached(self) -> None:
        """Count a place."""
        self.count += 1
        if self.count == self.place:
            os._exit(KILLED)

    def hook(self, event: str, arguments: tuple) -> None:
        """An audit hook."""
        if event not in EVENTS or (event == "open" and not arguments[2] & WRITING):
            return
        path = os.fspath(arguments[0]) if not isinstance(arguments[0], int) else ""
        if os.path.abspath(os.fsdecode(path)).startswith(self.here):
            self.reached()

    def around(self, function):
        """The same function, with a place before and after it."""

        def call(*arguments):
            self.reached()
            function(*arguments)
            self.reached()

        return call


def run(command: list[str], folder: Path, place: int = 0, seconds: float = 0.0) -> tuple[int, int]:
    """Run a command in a process of its own, killed at a place or after some seconds; return its exit code and its places."""
    count_file = folder.with_name("places")
    child = os.fork()
    if not child:
        os.chdir(folder)
        sys.argv = ["bert", *command]
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(os.open(folder.with_name("words"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        counter = Counter(place, count_file)
        os.fsync, atomic._exchange = counter.around(os.fsync), counter.around(atomic._exchange)
        sys.addaudithook(counter.hook)
        code = 1
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        finally:
            counter.here = "nowhere"
            count_file.write_text(str(counter.count))
            os._exit(code)
    if seconds:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code, int(count_file.read_text() or 0) if count_file.exists() else 0


def results(folder: Path) -> list[Path]:
    """The files that must be the same in the end."""
    found = (path.relative_to(folder) for pattern in RESULTS for path in folder.rglob(pattern))
    return sorted(path for path in found if "checkpoints" not in path.parts)


def is_intact(path: Path, folders: tuple[Path, ...], again: Path) -> bool:
    """Whether a file is the same as in one of the folders."""
    there = [folder / path for folder in folders if (folder / path).exists()]
    return (again / path).exists() and any(filecmp.cmp(each, again / path, shallow=False) for each in there)


def main_of_killing() -> None:
    """Kill each command at each place and go on."""
    start, parts = Path(sys.argv[1]).absolute(), sys.argv[2:]
    for module in PRELOADED:
        __import__(module)
    for is_between, group in groupby(parts, "+".__eq__):
        if not is_between:
            every, *command = group
            kill(start, int(every), command)


def kill(start: Path, every: int, command: list[str]) -> None:
    """Kill a command at each place and go on."""
    whole, again = (start.with_name(f"{start.name}-{name}") for name in ("whole", "again"))
    shutil.rmtree(whole, ignore_errors=True)
    shutil.copytree(start, whole)
    began = time.monotonic()
    code, places = run(command, whole)
    took = time.monotonic() - began
    if code:
        print(f"the undisturbed command ends with {code}: {whole.with_name('words').read_text()}")
        return
    chance = random.Random(0)
    tried = range(1, places + 1, every) if every > 0 else range(-every)
    for count, place in enumerate(tried):
        print(f"{count} of {len(tried)} tried", file=sys.stderr, flush=True)
        shutil.rmtree(again, ignore_errors=True)
        shutil.copytree(start, again)
        kills = [0.0] if every > 0 else [took * chance.random() + 1e-3 for _ in range(chance.randint(1, 3))]
        for seconds in kills:
            killed, _ = run(command, again, 0 if seconds else place, seconds)
            if killed not in (KILLED, -signal.SIGKILL, 0, 2):
                print(f"place {place}: killed, it ended with {killed}")
            if lost := [path for path in results(start) if not is_intact(path, (start, whole), again)]:
                print(f"place {place}: killed, it left {lost} damaged")
        code, _ = run(command, again)
        words = again.with_name("words").read_text()
        is_finished = code == 2 and "is finished" in words
        if code and not is_finished:
            print(f"place {place}: run again, it ended with {code}: {words[-300:]}")
        elif results(again) != results(whole):
            print(f"place {place}: other files: {set(results(again)) ^ set(results(whole))}")
        elif differ := filecmp.cmpfiles(whole, again, results(whole), shallow=False)[1]:
            print(f"place {place}: {differ} differ")
    print(f"{len(tried)} of {places} places tried" if every > 0 else f"{len(tried)} chains of random kills tried")


if __name__ == "__main__":
    main_of_killing()
