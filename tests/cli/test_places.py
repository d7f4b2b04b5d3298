"""Where results go: a wrong place is refused at once and stays as it was; through a link they go to what it leads to."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import GOLDENS, write_corpus, write_reviews

from tests.cli.test_main import run

FOLDERS = {
    "build-vocab": "build-vocab corpus.txt --vocab-size 100 --out",
    "make-pretraining-data": "make-pretraining-data corpus.txt --workers 1 --dupe-factor 1 --max-seq-length 32 --out",
    "pretrain": "pretrain --size tiny --batch-size 4 --steps 1 --out",
    "finetune": "finetune rows.csv --size tiny --from scratch --epochs 1 --no-baseline --limit 16 --out",
    "convert": "convert tf_checkpoint --out",
    "export": "export runs/classify --format safetensors --out",
}
FILES = {"predict": "predict --file rows.csv --model runs/classify --output", "report": "report runs/classify --out"}
WRONG = {  # places, and what is said of them
    "file": "file",
    "other": "other",  # a folder that holds something else
    "dangling": "a link that leads nowhere",
    "loop": "a link that leads nowhere",
    "file/inside": "`file` is not a folder",
    "dangling/inside": "`dangling` is not a folder",
}
# Runs the commands one after the other, and prints what was said and what was imported.
PROGRAM = """
import contextlib, io, json, sys
from bertcli.cli.main import main
said = []
for command in json.loads(sys.argv[1]):
    sys.argv = ["bert", *command]
    with contextlib.redirect_stderr(io.StringIO()) as words:
        try:
            main()
        except SystemExit as end:
            said.append([end.code, words.getvalue()])
print(json.dumps([said, "torch" in sys.modules]))
"""


@pytest.fixture
def material(home: Path, workspace: Path) -> Path:
    """A folder with what the commands read, and places of each sort."""
    write_corpus(workspace / "corpus.txt", 12)
    write_reviews(workspace / "rows.csv", 24)
    for name in ("vocab", "pretraining-data"):
        (workspace / name).symlink_to(home / name)
    shutil.copytree(GOLDENS / "before" / "runs" / "classify", workspace / "runs" / "classify")
    shutil.copytree(GOLDENS / "tf_checkpoint", workspace / "tf_checkpoint")
    (workspace / "file").write_text("older")
    (workspace / "other").mkdir()
    (workspace / "other" / "letter.txt").write_text("older")
    (workspace / "dangling").symlink_to("gone")
    (workspace / "loop").symlink_to("loop")
    return workspace


def files_below(folder: Path) -> dict[str, str]:
    """Paths and what they are: the target of a link, the text of an older file."""
    paths = [path for path in folder.rglob("*") if "runs" not in path.parts]
    return {
        str(path.relative_to(folder)): str(path.readlink()) if path.is_symlink() else str(path.stat().st_size)
        for path in paths
        if path.is_symlink() or path.is_file()
    }


def test_a_wrong_place_is_refused_before_anything_heavy_is_imported(material: Path) -> None:
    cases = [
        (name, place, what)
        for name in (*FOLDERS, *FILES)
        for place, what in WRONG.items()
        if name in FOLDERS or place != "file"  # which is replaced
    ]
    ending = {"predict": ".csv", "report": ""}
    commands = []
    for name, place, _ in cases:
        end = ending.get(name, "")
        if end and not (material / (place + end)).is_symlink() and (material / place).is_symlink():
            (material / (place + end)).symlink_to(place + end if place == "loop" else "gone/too")
        elif end and place == "other":
            (material / "other.csv").mkdir()
        commands.append([*({**FOLDERS, **FILES}[name]).split(), place + end, "--quiet"])
    before = files_below(material)
    done = subprocess.run([sys.executable, "-c", PROGRAM, json.dumps(commands)], capture_output=True, check=True)
    said, is_torch_imported = json.loads(done.stdout)
    wrong = [
        (name, place, code, words)
        for (name, place, what), (code, words) in zip(cases, said, strict=True)
        if code != 2 or what.split("`")[-1] not in words or words.count("\n") != 2
    ]
    assert (wrong, is_torch_imported) == ([], False)
    assert files_below(material) == before


@pytest.mark.parametrize("name", [*FOLDERS, *FILES])
def test_through_a_link_results_go_to_what_it_leads_to(
    material: Path, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BERT_KERNELS", "off")
    command, target = {**FOLDERS, **FILES}[name], material / "there" / "place.csv"
    target.parent.mkdir()
    target.mkdir() if name in FOLDERS else target.write_text("older")
    (material / "link.csv").symlink_to(target)
    code, _, err = run([*command.split(), "link.csv"], capsys, monkeypatch)
    assert code == 0, err
    assert (material / "link.csv").readlink() == target
    assert any(target.iterdir()) if name in FOLDERS else target.read_text() != "older"
    assert [path.name for path in target.parent.iterdir()] == ["place.csv"]
