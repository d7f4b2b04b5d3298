"""Made what lies here, by the version of commit 94c0b4c: `OMP_NUM_THREADS=1 PYTHONPATH=ITS_CLONE python make.py` in an empty folder."""

import contextlib
import io
import json
import os
import platform
import random
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "COLUMNS": "160"}

import torch
from transformers import BertConfig, BertForPreTraining

from bertcli import config, pretraining_data
from bertcli.cli.main import main
from bertcli.training.loop import Training

MODIFIED = 1_700_000_000  # of the corpus, in seconds: the time is part of what the data are known by
WORDS = [
    "the", "a", "cat", "dog", "sat", "ran", "on", "under", "mat", "tree", "happily", "slowly", "while", "birds", "sang", "in", "old", "green", "garden", "near", "house",
]  # fmt: skip
DATA = ["corpus.txt", "--tokenizer", "vocab", "--max-seq-length", "24", "--max-predictions-per-seq", "4"]
STATIC = [*DATA, "--dupe-factor", "2", "--shards", "2", "--workers", "1"]
DYNAMIC = [*DATA, "--masking", "dynamic", "--no-next-sentence", "--dupe-factor", "1", "--shards", "1", "--workers", "1"]
FLOAT = ["--precision", "float32"]
PRETRAIN = [
    *FLOAT,
    "--from",
    "runs/pretrain",
    "--log-steps",
    "1",
    "--steps",
    "8",
    "--batch-size",
    "8",
    "--learning-rate",
    "1e-3",
    "--seed",
    "1",
    "--eval-steps",
    "4",
]
FINETUNE = [*FLOAT, "--from", "runs/pretrain", "--batch-size", "8", "--learning-rate", "5e-3", "--max-seq-length", "24"]
EVALUATED = {  # the data of each run
    "classify": "data/reviews.csv", "multilabel": "data/marks.csv", "regress": "data/values.csv", "choose": "data/endings.csv",
    "tag": "data/tags.conll", "frozen": "data/tags.conll", "span": "data/questions.json", "rte": "glue/rte",
}  # fmt: skip
COLUMNS = {"multilabel": ["--text", "text", "--label", "animal,tree"]}
EPOCHS = {"classify": "10", "frozen": "30", "tag": "20", "span": "10", "rte": "4"}  # others: 6
MORE = {
    "frozen": [
        "--learning-rate",
        "1e-2",
        "--batch-size",
        "2",
        "--eval-steps",
        "100",
        "--frozen",
        "--frozen-layers",
        "weighted-sum-all",
    ],
    "span": ["--doc-stride", "8", "--max-query-length", "8"],
}
PREDICTED = {
    "pretrain": ["--text", "the [MASK] sat on the [MASK] .", "--top-k", "3"],
    "classify": ["--text", "the cat, happily green garden tree"],
    "multilabel": ["--text", "the old cat sang near the tree"],
    "regress": ["--text", "happily happily the cat"],
    "choose": ["--text", "the cat sat", "--choice", "slowly under mat", "--choice", "happily, green garden"],
    "tag": ["--text", "the cat sat near the green garden"],
    "frozen": ["--text", "the cat sat near the green garden"],
    "span": ["--question", "where sat the cat", "--context", "the old dog ran on the mat while birds sang in the green garden near a tree"],
    "rte": ["--text", "the cat sat on the mat", "--text-pair", "birds sang in the tree"],
}  # fmt: skip
TUNED = ["finetune", "data/values.csv", *FINETUNE, "--from", "runs/regress", "--log-steps", "1"]
BEGUN = {
    "static": ["pretrain", "--data", "static", *PRETRAIN],
    "dynamic": ["pretrain", "--data", "dynamic", *PRETRAIN],
    "single": [*TUNED, "--seed", "1", "--learning-rate", "1e-3", "--epochs", "3", "--eval-steps", "4"],
    "seeds": [*TUNED, "--learning-rate", "3e-4", "--epochs", "1", "--seeds", "2", "--optimizer", "bert"],
}  # fmt: skip
FILES = {"classify": "csv", "multilabel": "jsonl", "regress": "tsv", "choose": "csv"}  # of predictions
PRINTED = {  # options of the commands without a recipe that ships
    "build-vocab": ["corpus.txt", "--vocab-size", "120"],
    "make-pretraining-data": STATIC,
    "evaluate": ["data/reviews.csv", "--model", "runs/classify", "--mistakes", "3"],
    "predict": ["--file", "data/reviews.csv", "--output", "out.csv", "--model", "runs/classify"],
    "submit": ["glue", "runs/rte", "--data-dir", "official"],
    "convert": ["runs/classify", "--out", "elsewhere"],
}


def bert(*arguments: str, code: int = 0) -> str:
    """Run a command in this process; return what it prints."""
    sys.argv = ["bert", *arguments]
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            main()
        except SystemExit as ended:
            if ended.code != code:
                raise RuntimeError(f"{arguments}: {ended.code}") from ended
    return out.getvalue()


@contextlib.contextmanager
def stopped_after(steps: int, folder: str = "") -> Iterator[None]:
    """As Ctrl-C does, stop training once so many steps are made, in a folder of this name or in any."""
    step = Training._step

    def watched(self: Any, number: int, micro_batches: Any, asked: bool) -> Any:
        asked = asked or (number + 1 == steps and folder in ("", self.folder.path.name))
        return step(self, number, micro_batches, asked)

    Training._step = watched
    yield
    Training._step = step


def write_data() -> None:
    draw = random.Random(0)
    lines = []
    for _ in range(24):
        for _ in range(draw.randint(2, 5)):
            lines.append(" ".join(draw.choices(WORDS, k=draw.randint(4, 9))) + " .")
        lines.append("")
    Path("corpus.txt").write_text("\n".join(lines), encoding="utf-8")
    os.utime("corpus.txt", (MODIFIED, MODIFIED))
    folder = Path("data")
    folder.mkdir()
    rows = [(draw.choice(WORDS), draw.choice(["good", "bad"])) for _ in range(60)]
    mood = {"good": "happily green garden", "bad": "slowly under mat"}
    write_rows(folder / "reviews.csv", "text,label", [f'"the {word}, {mood[label]}",{label}' for word, label in rows])
    texts = [draw.choices(WORDS, k=5) for _ in range(60)]
    marks = [
        f"{' '.join(words)},{int('cat' in words or 'dog' in words)},{int('tree' in words or 'old' in words)}"
        for words in texts
    ]
    write_rows(folder / "marks.csv", "text,animal,tree", marks)
    counts = [draw.randint(1, 7) for _ in range(60)]
    write_rows(
        folder / "values.csv",
        "text,score",
        [f"{'happily ' * count}the {draw.choice(WORDS)},{count / 2}" for count in counts],
    )
    endings = []
    for _ in range(60):
        pair = [mood["good"], f"slowly under {draw.choice(WORDS)}"]
        label = draw.randrange(2)
        endings.append(f"the {draw.choice(WORDS)} sat,{pair[label]},{pair[1 - label]},{label}")
    write_rows(folder / "endings.csv", "context,ending0,ending1,label", endings)
    names = {"cat": "B-PER", "green": "B-LOC", "garden": "I-LOC"}
    words = [
        f"{word} {names.get(word, 'O')}" if word else "" for _ in range(60) for word in [*draw.choices(WORDS, k=6), ""]
    ]
    write_rows(folder / "tags.conll", "-DOCSTART- O\n", words)
    (folder / "questions.json").write_text(
        json.dumps({"version": "v2.0", "data": [article(draw, n) for n in range(40)]})
    )
    official = Path("official", "glue", "RTE")
    official.mkdir(parents=True)
    for split, count in (("train", 40), ("dev", 16)):
        labels = [draw.choice(["entailment", "not_entailment"]) for _ in range(count)]
        second = {"entailment": "the cat sat", "not_entailment": "birds sang"}
        pairs = [f"{n}\tthe {draw.choice(WORDS)} sat\t{second[label]}\t{label}" for n, label in enumerate(labels)]
        write_rows(official / f"{split}.tsv", "index\tsentence1\tsentence2\tlabel", pairs)


def write_rows(path: Path, header: str, rows: list[str]) -> None:
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")


def article(draw: random.Random, number: int) -> dict[str, Any]:
    """A question that the words `green garden` answer, wherever they stand; in every fourth text they do not."""
    others = [word for word in WORDS if word not in ("green", "garden")]
    before, after = (" ".join(draw.choices(others, k=draw.randint(2, 7))) for _ in range(2))
    possible = number % 4 > 0
    answers = [{"text": "green garden", "answer_start": len(before) + 1}] if possible else []
    asked = {"id": f"q{number}", "question": "where sat the cat", "answers": answers, "is_impossible": not possible}
    context = f"{before} green garden {after}" if possible else f"{before} {after}"
    return {"title": f"t{number}", "paragraphs": [{"context": context, "qas": [asked]}]}


def write_start() -> None:
    """A BERT of one layer and 32 hidden units, which no size that ships is as small as."""
    torch.manual_seed(0)
    size = len(Path("vocab/vocab.txt").read_text(encoding="utf-8").splitlines())
    shape = BertConfig(
        vocab_size=size, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=48,
        max_position_embeddings=24, hidden_act="gelu_pytorch_tanh", initializer_range=0.15, lstm_units=16,
    )  # fmt: skip
    BertForPreTraining(shape).save_pretrained("start")
    for path in Path("vocab").iterdir():
        shutil.copy(path, "start")


def make_data() -> None:
    bert("build-vocab", "corpus.txt", "--vocab-size", "120", "--min-frequency", "1")
    bert("make-pretraining-data", *STATIC, "--out", "static")
    bert("make-pretraining-data", *DYNAMIC, "--out", "dynamic")
    make_shard = pretraining_data.make_shard

    def first_only(folder: Path, *more: Any) -> int:
        if more[-1]:
            raise KeyboardInterrupt
        return make_shard(folder, *more)

    pretraining_data.make_shard = first_only
    bert("make-pretraining-data", *STATIC, "--out", "unfinished", code=130)
    pretraining_data.make_shard = make_shard


def make_runs() -> None:
    bert("pretrain", *FLOAT, "--from", "start", "--data", "static", "--steps", "30", "--batch-size", "16", "--learning-rate", "5e-3", "--out", "runs/pretrain")  # fmt: skip
    for name, data in EVALUATED.items():
        official = ["--data-dir", "official"] if name == "rte" else []
        epochs = ["--epochs", EPOCHS.get(name, "6")]
        bert(
            "finetune",
            data,
            *FINETUNE,
            *official,
            *COLUMNS.get(name, []),
            *epochs,
            *MORE.get(name, []),
            "--out",
            f"runs/{name}",
        )


def make_interrupted_runs() -> None:
    """Each twice: stopped, and undisturbed, of which the weights and the log are kept; of `dynamic` the log alone."""
    for name, arguments in BEGUN.items():
        bert(*arguments, "--out", f"whole/{name}")
        if name == "dynamic":
            continue
        with stopped_after(*((3, "seed-1") if name == "seeds" else (5,))):
            bert(*arguments, "--save-steps", "1000", "--out", f"runs/{name}", code=130)


def expected() -> dict[str, Any]:
    """What this version says of the runs."""
    evaluated, predicted = {}, {}
    for name, data in EVALUATED.items():
        result = json.loads(bert("evaluate", data, "--model", f"runs/{name}", "--json"))
        evaluated[name] = {"data": data, "metrics": result["metrics"], "examples": result["examples"]}
    for name, arguments in PREDICTED.items():
        result = json.loads(bert("predict", *arguments, "--model", f"runs/{name}", "--json"))
        predicted[name] = {"arguments": arguments, "record": result}
    files = {}
    Path("predictions").mkdir()
    for name, ending in FILES.items():
        path = f"predictions/{name}.{ending}"
        bert("predict", "--file", EVALUATED[name], "--model", f"runs/{name}", "--output", path)
        files[path] = ["evaluate", EVALUATED[name], *COLUMNS.get(name, []), "--predictions", path]
    bert("predict", "glue/rte", "--model", "runs/rte", "--output", "predictions/rte.csv")
    files["predictions/rte.csv"] = [
        "evaluate",
        "glue/rte",
        "--data-dir",
        "official",
        "--predictions",
        "predictions/rte.csv",
    ]
    for name, data in EVALUATED.items():
        path = f"runs/{name}/predictions.{'json' if name == 'span' else 'jsonl'}"
        files[path] = ["evaluate", data, "--predictions", path, "--model", f"runs/{name}"]
    files["runs/span/predictions.json"] += ["--na-probs", "runs/span/null_odds.json"]
    scored = [{"arguments": own, "metrics": json.loads(bert(*own, "--json"))["metrics"]} for own in files.values()]
    return {"machine": machine(), "evaluated": evaluated, "predicted": predicted, "scored": scored, "whole": keep_whole(),
            "data": {"static": STATIC, "dynamic": DYNAMIC}, "printed": printed()}  # fmt: skip


def printed() -> dict[str, str]:
    """What `--print-config` prints for the recipes that ship, copied here too, and for some options of each command."""
    found = {}
    for name in config.recipe_names():
        target = Path("recipes", f"{name}.yaml")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(config.recipes_folder() / f"{name}.yaml", target)
        command = "pretrain" if name.startswith("pretrain/") else "finetune"
        found[f"{command} --recipe recipes/{name}.yaml"] = bert(
            command, "--recipe", f"recipes/{name}.yaml", "--print-config"
        )
    return found | {" ".join([name, *own]): bert(name, *own, "--print-config") for name, own in PRINTED.items()}


def keep_whole() -> dict[str, Any]:
    """The logs and results of the undisturbed runs, of which only the weights stay as they are."""
    kept: dict[str, Any] = {}
    for run in sorted(Path("whole").iterdir()):
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
        for line in lines:
            line.pop("tokens_per_second", None), line.pop("share_of_peak", None)
        result = json.loads((run / "result.json").read_text(encoding="utf-8"))
        kept[run.name] = {
            "arguments": BEGUN[run.name], "log": lines, "metrics": result["metrics"], "best_step": result["best_step"], "losses": result["losses"],
            "runs": [(own["setting"], own["metrics"]) for own in result["runs"]],
        }  # fmt: skip
        part = run / "seed-1" if run.name == "seeds" else run
        if run.name != "dynamic":
            shutil.move(part / "model" / "model.safetensors", f"whole/{run.name}.safetensors")
        shutil.rmtree(run)
    return kept


def machine() -> dict[str, str]:
    """What decides the bits of a result."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    of_cpu = [
        line.partition(":")[2].strip() for line in lines if line.startswith(("vendor_id", "cpu family", "model\t"))
    ]
    return {
        "cpu": " ".join(of_cpu[:3]),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "torch": torch.__version__,
    }


def strip() -> None:
    """Remove what nothing reads, and where this stood."""
    for folder in ("start", "static/.arrow", "dynamic/.arrow"):
        shutil.rmtree(folder, ignore_errors=True)
    for path in [*Path("runs").rglob("*"), *Path(".unfinished.part").rglob("*")]:
        if path.name in ("README.md", "report.html", "loss.png", "loss.svg", ".lock"):
            path.unlink()
        elif path.name == "last" and (path.parent / "result.json").exists():
            shutil.rmtree(path)
        elif path.name in ("config.yaml", "environment.json"):
            text = path.read_text(encoding="utf-8").replace(f"{Path.cwd()}/", "").replace(platform.platform(), "Linux")
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_data()
    make_data()
    write_start()
    make_runs()
    make_interrupted_runs()
    Path("expected.json").write_text(json.dumps(expected(), indent=1) + "\n", encoding="utf-8")
    strip()
