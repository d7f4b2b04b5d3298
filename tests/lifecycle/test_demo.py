"""The demonstration tells its story in forty lines, and keeps the logs of its steps in a file."""

import csv
import lzma
import sys
from pathlib import Path

import pytest

from bertcli.cli.main import main
from bertcli.config.recipes import recipes_folder
from bertcli.lifecycle import demo


def a_part_of_what_ships(home: Path) -> Path:
    """Some of two books, and the questions of three classes."""
    shipped, here = recipes_folder() / "demo", home / "demo"
    (here / "banking77").mkdir(parents=True)
    for folder, book in (("books", "h-g-wells_the-war-of-the-worlds"), ("held-out", "h-g-wells_the-time-machine")):
        (here / folder).mkdir()
        with lzma.open(shipped / folder / f"{book}.txt.xz", "rt", encoding="utf-8") as file:
            (here / folder / f"{book}.txt").write_text(file.read()[:30_000])
    for name in ("train.csv.xz", "test.csv.xz"):
        with lzma.open(shipped / "banking77" / name, "rt", encoding="utf-8", newline="") as file:
            header, *rows = csv.reader(file)
        classes = sorted({row[1] for row in rows})[:3]
        with lzma.open(here / "banking77" / name, "wt", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([header, *(row for row in rows if row[1] in classes)])
    return home


@pytest.mark.slow
def test_the_story_is_short_and_ends_with_answers(
    workspace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    home = a_part_of_what_ships(workspace / "recipes")
    monkeypatch.setattr(demo, "recipes_folder", lambda: home)
    arguments = ["--steps", "4", "--batch-size", "8", "--vocab-size", "600", "--out", "shown"]
    monkeypatch.setattr(sys, "argv", ["bert", "demo", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capsys.readouterr()
    assert ended.value.code == 0
    assert len(out.splitlines()) + len(err.splitlines()) <= 40
    for words in (
        "masked-word accuracy",
        "what it fills in",
        "bag of words",
        "random weights",
        "bert-books",
        "How do I",
    ):
        assert words in out + err
    report = next(line for line in out.splitlines() if "report: " in line).strip("│ ").removeprefix("report: ")
    assert Path(report).exists()
    assert "masked_lm_accuracy" in Path("shown", "log.txt").read_text()
