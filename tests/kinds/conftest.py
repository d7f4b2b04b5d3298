"""Runs that several tests of kinds read."""

import gzip
import random
from pathlib import Path

import pytest
from conftest import WORDS

from bertcli.lifecycle.finetune import finetune

SWAG_COLUMNS = ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,label"
LEARNING = {"epochs": 6, "batch_size": 8, "learning_rate": 2e-3}


def write_swag(path: Path, count: int, seed: int) -> None:
    """A task that can be learnt: the right ending is the one of happy words."""
    draw = random.Random(seed)
    rows = [SWAG_COLUMNS]
    for number in range(count):
        label = draw.randrange(4)
        endings = [f"slowly under {draw.choice(WORDS)}" for _ in range(4)]
        endings[label] = '"happily, green garden"'
        rows.append(f"{number},v,1,The cat sat. It,The cat sat.,It,gold,{','.join(endings)},{label}")
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")


@pytest.fixture(scope="session")
def swag_run(home: Path) -> Path:
    folder = home / "official" / "swag"
    folder.mkdir(parents=True, exist_ok=True)
    write_swag(folder / "train.csv", 64, 1)
    write_swag(folder / "val.csv", 20, 2)
    (folder / "val.csv.gz").write_bytes(gzip.compress((folder / "val.csv").read_bytes()))
    (folder / "val.csv").unlink()
    run = finetune(
        "swag",
        data_dir=str(home / "official"),
        from_=str(home / "runs" / "pretrain-tiny"),
        out=str(home / "runs" / "swag"),
        **LEARNING,
    )
    assert run.metrics["accuracy"] > 80
    return Path(run.run)


def write_conll(path: Path, count: int, seed: int) -> None:
    """A task that can be learnt: two words are names."""
    draw = random.Random(seed)
    lines = ["-DOCSTART- -X- -X- O", ""]
    for _ in range(count):
        for word in draw.choices(WORDS, k=draw.randint(1, 9)):
            tag = {"cat": "I-PER", "garden": "I-LOC", "green": "I-LOC"}.get(word, "O")  # IOB1, as the official files
            lines.append(f"{word} NN I-NP {tag}")
        lines.append("")
    path.write_text("\n".join(lines), encoding="utf-8")


@pytest.fixture(scope="session")
def conll_run(home: Path) -> Path:
    folder = home / "official" / "conll2003"
    folder.mkdir(parents=True, exist_ok=True)
    write_conll(folder / "eng.train", 80, 1)
    write_conll(folder / "eng.testa", 30, 2)
    run = finetune(
        "conll2003",
        data_dir=str(home / "official"),
        from_=str(home / "runs" / "pretrain-tiny"),
        out=str(home / "runs" / "conll2003"),
        max_seq_length=8,
        **LEARNING,
    )
    assert run.metrics["f1"] > 80
    return Path(run.run)
