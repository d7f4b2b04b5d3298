"""Files that the package wrote, damaged at random: a result or an error that names the file, never a traceback."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from bertcli import predict, pretrain
from bertcli.data.pretraining.shards import load_pretraining_examples
from bertcli.data.text.tokenization import load_tokenizer
from bertcli.errors import UserError
from bertcli.lifecycle.workspace import find_runs
from bertcli.objectives import default_objective
from bertcli.objectives.objective import ObjectiveExamples
from bertcli.training.result import TrainingResult
from bertcli.training.run_folder import RunFolder

ODD = (None, True, -1, 0, 2**63, 1e300, float("nan"), "", "x" * 50, "../..", [], [[]], {}, {"a": 1})


def change_value(values: Any, chance: random.Random) -> Any:
    """JSON or YAML with one value, somewhere, removed or replaced by an odd one."""
    if not isinstance(values, dict | list) or not values or chance.random() < 0.1:
        return chance.choice(ODD)
    key = chance.choice(list(values)) if isinstance(values, dict) else chance.randrange(len(values))
    if chance.random() < 0.2:
        del values[key]
    else:
        values[key] = change_value(values[key], chance)
    return values


def damage(path: Path, chance: random.Random) -> None:
    """Cut a file, change bytes of it or, where it has values, one of these."""
    content = bytearray(path.read_bytes())
    if path.suffix in (".json", ".yaml") and chance.random() < 0.7:
        load, dump = (json.loads, json.dumps) if path.suffix == ".json" else (yaml.safe_load, yaml.safe_dump)
        path.write_text(dump(change_value(load(content.decode()), chance)))
        return
    if chance.random() < 0.3:
        del content[chance.randrange(len(content)) :]
    for _ in range(chance.choice((0, 1, 20)) if content else 0):
        content[chance.randrange(len(content))] = chance.randrange(256)
    path.write_bytes(content)


def read_data(home: Path) -> None:
    examples = load_pretraining_examples(home / "pretraining-data", 0)
    objective = default_objective(examples.has_pairs)
    rows = np.arange(len(examples))
    ObjectiveExamples(objective, examples).pack(rows[examples.lengths[rows].argsort()[::-1][:4]], 0)


def read_tokenizer(home: Path) -> None:
    load_tokenizer(home / "pretraining-data" / "tokenizer").encode(["the cat", "sat 5 [MASK]"])


def read_run(home: Path) -> None:
    run = RunFolder(home / "runs" / "pretrain-tiny")
    find_runs("pretrain", finished=True)
    run.metrics()
    TrainingResult.read(run.path)


def use_model(home: Path) -> None:
    predict(text="the [MASK] sat.", model=str(home / "runs" / "pretrain-tiny"))


def resume(home: Path) -> None:
    steps = 1 + TrainingResult.read(home / "runs" / "pretrain-tiny").steps
    pretrain(resume=True, out=str(home / "runs" / "pretrain-tiny"), steps=min(steps, 99), data="pretraining-data")


RUN = "runs/pretrain-tiny"
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
]


@pytest.mark.parametrize("cases", [120, pytest.param(10_000, marks=pytest.mark.torture)])
def test_a_damaged_file_is_an_error_of_one_line(
    cases: int, at_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = []
    for case in range(cases):
        chance = random.Random(case)
        pattern, read = READERS[case % len(READERS)]
        home = tmp_path / "home"
        shutil.rmtree(home, ignore_errors=True)
        for part in ("pretraining-data", RUN):
            shutil.copytree(at_home / part, home / part, ignore=shutil.ignore_patterns(".arrow"))
        monkeypatch.chdir(home)
        path = chance.choice(sorted(each for each in home.glob(pattern) if each.is_file() and each.stat().st_size))
        damage(path, chance)
        if chance.random() < 0.5:  # as in data of an older version
            (path.parent / "checksums.sha256").unlink(missing_ok=True)
        try:
            with torch.random.fork_rng():
                read(home)
        except UserError as error:
            if "\n" in error.message or not error.hint:
                failed.append(f"{case}: {error}")
        except Exception as error:
            failed.append(f"{case}: {path.relative_to(home)}: {type(error).__name__}: {str(error)[:150]}")
    assert failed == []
