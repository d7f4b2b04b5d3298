"""No code of a model or a data set is run, and nobody is asked whether it may be."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import bertcli

LOADS = re.compile(r"(?:from_pretrained|from_config|load_dataset)\((?=.)")
PASSED_ON = re.compile(
    r"(?:def |super\(\)\.|cls\.)from_pretrained\("
)  # a model with weights of its own format: its callers say it
AUTO_MAP = {"AutoConfig": "evil.Config", "AutoModel": "evil.Model", "AutoModelForPreTraining": "evil.Model"}


def test_every_load_says_that_no_remote_code_is_trusted() -> None:
    for path in Path(bertcli.__file__).parent.rglob("*.py"):
        for line in path.read_text(encoding="utf-8").splitlines():
            is_shown = path.name in ("model_card.py", "export_example.py", "example.py")  # code for readers
            if LOADS.search(line) and "`" not in line and not PASSED_ON.search(line) and not is_shown:
                assert "NO_CODE" in line or "trust_remote_code=False" in line, f"{path}: {line}"


@pytest.mark.parametrize("model_type", ["bert", pytest.param("unknown-type", marks=pytest.mark.torture)])
def test_a_model_with_code_of_its_own_neither_runs_it_nor_asks(model_type: str, at_home: Path, tmp_path: Path) -> None:
    """With a standard input that is open and never answers."""
    model = tmp_path / model_type
    shutil.copytree("runs/pretrain-tiny/model", model, ignore=shutil.ignore_patterns("checksums.sha256"))
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "model_type": model_type, "auto_map": AUTO_MAP}))
    ran = tmp_path / f"{model_type}-ran"
    (model / "evil.py").write_text(f"open({str(ran)!r}, 'w')\n")
    command = [sys.executable, "-m", "bertcli", "predict", "--text", "the [MASK] sat.", "--model", str(model)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    code = process.wait(timeout=120)  # its input stays open
    words = process.stderr.read() if process.stderr else ""
    assert code == (0 if model_type == "bert" else 2), words
    assert "Traceback" not in words
    assert not ran.exists()
