"""The demonstration tells its story in forty lines, and keeps the logs of its steps in a file."""

import sys
from pathlib import Path

import pytest

from bertcli.cli.main import main
from bertcli.lifecycle import demo


@pytest.mark.slow
def test_the_story_is_short_and_ends_with_answers(
    workspace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "TRAIN_PER_CLASS", 2)
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
