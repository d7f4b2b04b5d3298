"""Files that the package wrote, damaged at random: a result or an error that names the file, never a traceback."""

import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from damaging import damage, failure

from bertcli import predict, pretrain
from bertcli.data.checksums import CHECKSUMS
from bertcli.data.pretraining.shards import load_pretraining_examples
from bertcli.data.text.tokenization import load_tokenizer
from bertcli.lifecycle.workspace import find_runs
from bertcli.objectives import default_objective
from bertcli.objectives.objective import ObjectiveExamples
from bertcli.training.result import TrainingResult
from bertcli.training.run_folder import RunFolder
from tests.cli.test_main import run

RUN = "runs/pretrain-tiny"
TASK_RUNS = {  # runs of each kind, made by an older version, and an input that they take
    "classify": {"text": "the cat sat."},
    "multilabel": {"text": "the cat sat."},
    "regress": {"text": "the cat sat."},
    "choose": {"text": "the cat", "choice": ["sat.", "ran."]},
    "frozen": {"text": "the cat sat."},
    "rte": {"text": "the cat sat.", "text_pair": "a cat sat."},
}


def read_data(home: Path) -> None:
    examples = load_pretraining_examples(home / "pretraining-data", 0)
    objective = default_objective(examples.has_pairs)
    rows = np.arange(len(examples))
    ObjectiveExamples(objective, examples).pack(rows[examples.lengths[rows].argsort()[::-1][:4]], 0)


def read_tokenizer(home: Path) -> None:
    load_tokenizer(home / "pretraining-data" / "tokenizer").encode(["the cat", "sat 5 [MASK]"])


def read_run(home: Path) -> None:
    run = RunFolder(home / RUN)
    find_runs("pretrain", finished=True)
    run.metrics()
    TrainingResult.read(run.path)


def use_model(home: Path) -> None:
    predict(text="the [MASK] sat.", model=str(home / RUN))


def resume(home: Path) -> None:
    steps = 1 + TrainingResult.read(home / RUN).steps
    pretrain(resume=True, out=str(home / RUN), steps=min(steps, 99), data="pretraining-data")


def use_run(name: str) -> Callable[[Path], None]:
    def read(home: Path) -> None:
        find_runs("finetune", finished=True)
        predict(model=str(home / "runs" / name), **TASK_RUNS[name])

    return read


READERS: list[tuple[str, Callable[[Path], None]]] = [
    ("pretraining-data/manifest.json", read_data),
    ("pretraining-data/*.parquet", read_data),
    ("pretraining-data/tokenizer/*", read_tokenizer),
    (f"{RUN}/config.yaml", read_run),
    (f"{RUN}/result.json", read_run),
    (f"{RUN}/metrics.jsonl", read_run),
    (f"{RUN}/model/config.json", use_model),
    (f"{RUN}/model/*", use_model),
    (f"{RUN}/config.yaml", use_model),
    (f"{RUN}/config.yaml", resume),
    (f"{RUN}/start/*", resume),
    (f"{RUN}/checkpoints/*/*", resume),
    *((f"runs/{name}/{file}", use_run(name)) for name in TASK_RUNS for file in ("config.yaml", "model/*")),
]
ONCE_FAILED = (321, 394, 399, 417, 599, 815, 1309, 1546, 2482, 2519, 3833, 6514, 6705, 7642, 8361)  # with a traceback
PARTS = ("pretraining-data", RUN, *(f"runs/{name}" for name in TASK_RUNS))


@pytest.fixture
def originals(at_home: Path, tmp_path: Path) -> Path:
    """A folder of data, a run of pre-training, and runs of tasks."""
    for part in PARTS:
        source = at_home / part if (at_home / part).exists() else GOLDEN_RUNS / Path(part).name
        shutil.copytree(source, tmp_path / "originals" / part, ignore=shutil.ignore_patterns(".arrow"))
    return tmp_path / "originals"


GOLDEN_RUNS = Path(__file__).parent / "goldens" / "before" / "runs"


@pytest.mark.parametrize(
    "cases",
    [
        (*range(40), *ONCE_FAILED),
        *(pytest.param(range(each, each + 1000), marks=pytest.mark.torture) for each in range(0, 10_000, 1000)),
    ],
    ids=lambda cases: f"{len(cases)}-from-{cases[0]}",
)
def test_a_damaged_file_is_an_error_of_one_line(
    cases: Sequence[int], originals: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BERT_KERNELS", "off")
    failed, home = [], tmp_path / "home"
    shutil.copytree(originals, home)
    monkeypatch.chdir(home)
    for case in cases:
        chance = random.Random(case)
        pattern, read = READERS[case % len(READERS)]
        part = next(part for part in PARTS if pattern.startswith(part))
        path = chance.choice(sorted(each for each in home.glob(pattern) if each.is_file() and each.stat().st_size))
        damage(path, chance)
        if chance.random() < 0.5:  # as in data of an older version
            (path.parent / "checksums.sha256").unlink(missing_ok=True)
        if not path.exists():
            path.touch()
        wrong = failure(lambda read=read: read(home), path)
        if wrong and not (read is resume and wrong == "the file was changed"):
            failed.append(f"{case}: {path.relative_to(home)}: {wrong}")
        shutil.rmtree(home / part)
        shutil.copytree(originals / part, home / part)
    assert failed == []


FLIPPED = {  # files, and the command that reads them
    f"{RUN}/model/*": f"predict --text [MASK] --model {RUN}",
    f"{RUN}/checkpoints/*/*": f"pretrain --resume --out {RUN} --steps 5",
    f"{RUN}/start/*": f"pretrain --resume --out {RUN} --steps 5",
    "pretraining-data/*.parquet": "pretrain --size tiny --steps 1",
    "pretraining-data/tokenizer/*": "pretrain --size tiny --steps 1",
    "vocab/*": "make-pretraining-data corpus.txt --workers 1 --out more-data",
}


def test_a_flipped_byte_is_found_and_named_by_the_command_line(
    at_home: Path, originals: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("vocab", "corpus.txt"):
        copy = shutil.copytree if name == "vocab" else shutil.copy
        copy(at_home / name, originals / name)
    monkeypatch.chdir(originals)
    tried = []
    for pattern, command in FLIPPED.items():
        for path in sorted(each for each in originals.glob(pattern) if each.name != CHECKSUMS):
            content = path.read_bytes()
            for place in (0, len(content) // 2, len(content) - 1):
                path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
                code, _, words = run([*command.split(), "--quiet"], capsys, monkeypatch)
                assert (code, path.name in words, words.count("\n")) == (2, True, 2), (path, place, words)
                tried.append(path)
            path.write_bytes(content)
    assert len(tried) >= 3 * 15
