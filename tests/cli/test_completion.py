"""The shell completes values: choices, tasks, runs, models, recipes, and the columns of the file named."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bertcli.cli.main import app


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("bert finetune glue/s", ["glue/sst2", "glue/stsb"]),
        ("bert pretrain --size m", ["mini", "medium"]),
        ("bert finetune squad --recipe glue/m", ["glue/mnli", "glue/mrpc"]),
        ("bert finetune mine.csv --label ", ["review", "how many stars"]),
        ("bert finetune mine.csv --text r", ["review"]),
        ("bert finetune words.conllu --label x", ["xpos"]),
        ("bert predict --model ", ["runs/mine", "google-bert/bert-base-uncased", "minilm", "bert-books"]),
        ("bert predict --text r", []),
    ],
)
def test_values_are_completed(workspace: Path, typed: str, completed: list[str]) -> None:
    Path("mine.csv").write_text("review,how many stars\ngood,5\n")
    Path("words.conllu").write_text("1\tgood\t_\tADJ\tJJ\t_\t0\t_\t_\t_\n")
    Path("runs/mine").mkdir(parents=True)
    Path("runs/mine/config.yaml").write_text("command: finetune\ntask: mine\nkind: classify\n")
    words = typed.split()
    place = len(words) - (not typed.endswith(" "))
    asked = {"_BERT_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(place)}
    found = CliRunner().invoke(app, [], env=asked, prog_name="bert")
    assert found.output.split("\n")[: len(completed)] == completed
    if not completed:
        assert not found.output.strip()


def test_it_is_of_bert_however_the_command_line_is_called(workspace: Path) -> None:
    asked = {"_BERT_COMPLETE": "complete_bash", "COMP_WORDS": "bert pred", "COMP_CWORD": "1"}
    called = [sys.executable, "-m", "bertcli"]  # as where another program is named bert
    found = subprocess.run(called, env=os.environ | asked, capture_output=True, text=True, check=False)
    assert found.stdout.split() == ["predict"]
