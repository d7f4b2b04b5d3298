"""What `bert finetune FILE` gets with no options, beside the guess, a bag of words, frozen features and a grid of settings.

`python -m tests.benchmarks defaults` runs all sets and sizes, which takes days on two cores; options choose a part. Each
line is written to results-defaults.jsonl when it is measured and not measured again; --table prints what is there.
"""

import argparse
import csv
import json
import logging
import lzma
import os
import random
import shutil
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from itertools import product
from pathlib import Path
from statistics import median

from tests.benchmarks.materials import BESIDE

Row = list[str]  # text, second text or four choices if there are any, label
RESULTS = Path(__file__).parent / "results-defaults.jsonl"
SIZES = ("8", "32", "128", "1000", "5000")  # below 1,000: examples of each class
MOST_SCORED = 1500
GRID = tuple(product((3, 6, 12, 24), (3e-5, 1e-4, 3e-4)))  # epochs, learning rate


def _tsv(path: str, columns: tuple[int, ...], has_header: bool = True) -> list[Row]:
    lines = (BESIDE / path).read_text(encoding="utf-8-sig").splitlines()[has_header:]
    return [[line.split("\t")[column] for column in columns] for line in lines]


def _csv(path: str, label: str) -> list[Row]:
    file = BESIDE / path
    with lzma.open(file, "rt") if file.suffix == ".xz" else file.open(encoding="utf-8") as lines:
        return [[row["text"], row[label]] for row in csv.DictReader(lines)]


def _sentences(path: str) -> list[Row]:
    """Sentences with their tags, as one cell each."""
    blocks = (BESIDE / path).read_text(encoding="utf-8").split("\n\n")
    return [[block] for block in blocks if block.strip() and "-DOCSTART-" not in block]


def _glue(task: str, columns: tuple[int, ...], has_header: bool = True) -> list[list[Row]]:
    return [_tsv(f"glue/{task}/{split}.tsv", columns, has_header) for split in ("train", "dev")]


def _parts(rows: list[Row], scored: int) -> list[list[Row]]:
    """Rows to draw from, and others to score on, of data that come as one."""
    random.Random(0).shuffle(rows)
    return [rows[scored:], rows[:scored]]


def _topics() -> list[list[Row]]:
    """The questions of SQuAD's dev set, with the title of their article: 48 classes."""
    articles = json.loads((BESIDE / "squad/dev-v1.1.json").read_text(encoding="utf-8"))["data"]
    asked = [(each["title"], asked) for each in articles for part in each["paragraphs"] for asked in part["qas"]]
    return _parts([[question["question"], title] for title, question in asked], 4000)


SETS: dict[str, Callable[[], list[list[Row]]]] = {
    "banking77": lambda: [_csv(f"demo/banking77/{split}.csv", "category") for split in ("train", "test")],
    "sst2": lambda: _glue("SST-2", (0, 1)),
    "cola": lambda: _glue("CoLA", (3, 1), has_header=False),
    "rte": lambda: _glue("RTE", (1, 2, 3)),
    "stsb": lambda: _glue("STS-B", (7, 8, 9)),
    "imdb": lambda: [_csv(f"imdb/{split}.csv.xz", "label") for split in ("train", "test")],
    "conll2003": lambda: [_sentences(f"conll2003/{split}.txt") for split in ("train", "test")],
    "codah": lambda: _parts(_tsv("demo/codah/full_data.tsv", (1, 2, 3, 4, 5, 6), has_header=False), 700),
    # No choice of the defaults was made by these.
    "mrpc": lambda: _glue("MRPC", (3, 4, 0)),
    "qnli": lambda: _parts(_tsv("glue/QNLI/dev.tsv", (1, 2, 3)), 2731),
    "qqp": lambda: _parts(_tsv("glue/QQP/partial_23k.tsv", (3, 4, 5)), 3000),
    "topics": _topics,
}


def sample(rows: list[Row], size: str, seed: int) -> list[Row]:
    """So many examples of each class, or in all where there are no classes or the size is 1,000 or more."""
    rows = rows.copy()
    random.Random(seed).shuffle(rows)
    count, classes = int(size), {row[-1] for row in rows}
    if count >= 1000 or len(classes) > 100:
        return rows[: count if count >= 1000 else 2 * count]
    seen: Counter[str] = Counter()
    kept = []
    for row in rows:
        seen[row[-1]] += 1
        kept += [row] if seen[row[-1]] <= count else []
    return kept


def write(path: Path, rows: list[Row]) -> str:
    """Write rows as CSV, or sentences with tags as CoNLL; return the name of the file."""
    if len(rows[0]) == 1:
        path = path.with_suffix(".conll")
        path.write_text("\n\n".join(row[0] for row in rows) + "\n", encoding="utf-8")
        return str(path)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        between = {2: [], 3: ["text_pair"], 6: [f"choice_{number}" for number in range(4)]}[len(rows[0])]
        writer.writerow(["text", *between, "label"])
        writer.writerows(rows)
    return str(path)


def fine_tuned(train: str, test: str, model: str, seed: int, **options: object) -> dict[str, float]:
    """The first metric on the test set, and the seconds that training took."""
    from bertcli import evaluate, finetune

    began = time.time()
    run = finetune(train, from_=model, seed=seed, out="run", baseline=False, **options)
    seconds = time.time() - began
    metrics = evaluate(test, model=["run"]).metrics
    shutil.rmtree("run")
    return {"score": next(iter(metrics.values())), "seconds": round(seconds, 1), "steps": run.steps}


def baselines(train: str, test: str, model: str) -> dict[str, float]:
    """The first metric on the test set of the guess, a bag of words and frozen features, where texts have classes or values."""
    import numpy as np

    from bertcli import predict
    from bertcli.kinds import KINDS
    from bertcli.lifecycle.baselining.beside_finetuning import predict_baselines
    from bertcli.lifecycle.own_files import own_task
    from bertcli.lifecycle.scoring.cross_validation import fit_and_predict, targets_of
    from bertcli.lifecycle.scoring.scores import measure

    task, parts = own_task(train, {}, None)
    if not KINDS[task.kind].has_linear_head:
        return {}
    _, scored = own_task(test, {}, task.kind, scored="test")
    fitted, left = parts["train"], scored["test"]
    found = predict_baselines(task, fitted, left)
    states = []
    for file in (train, test):
        predict(file=file, features="states.npz", pooling="mean", model=model)
        array = np.load("states.npz")["features"].astype(np.float64)
        states.append(array / np.linalg.norm(array, axis=1, keepdims=True))
    found["frozen"] = fit_and_predict(task, states[0], targets_of(task, fitted), states[1], 10.0)  # type: ignore[arg-type]
    compared = {name: KINDS[task.kind].compare(task, left, predictions) for name, predictions in found.items()}
    return {name: next(iter(measure(task, each).values())) for name, each in compared.items()}


def setfit(train_rows: list[Row], test_rows: list[Row], model: str, seed: int, iterations: int) -> dict[str, float]:
    """The accuracy of SetFit, trained on `iterations` pairs of the same and of another class for each text, and its seconds."""
    from datasets import Dataset
    from setfit import SetFitModel, Trainer, TrainingArguments

    from bertcli.lifecycle.workspace import resolve_model

    began = time.time()
    settings = TrainingArguments(
        "setfit",
        batch_size=16,
        num_epochs=1,
        num_iterations=iterations,
        seed=seed,
        report_to="none",
        save_strategy="no",
    )
    settings.show_progress_bar = False
    texts, labels = ([row[place] for row in train_rows] for place in (0, -1))
    started = SetFitModel.from_pretrained(resolve_model(model))
    Trainer(started, settings, train_dataset=Dataset.from_dict({"text": texts, "label": labels})).train()
    seconds = time.time() - began
    predicted = started.predict([row[0] for row in test_rows], as_numpy=True)
    right = sum(str(found) == row[-1] for found, row in zip(predicted, test_rows, strict=True))
    return {"score": 100 * right / len(test_rows), "seconds": round(seconds, 1)}


def measure_all(asked: argparse.Namespace, grid: Iterable[tuple[int, float]]) -> None:
    """Measure what is not in the file yet."""
    done = {(each["set"], each["size"], each["model"], each["seed"], each["what"]) for each in results()}
    for size, name, seed, model in product(asked.sizes, asked.sets, range(asked.seeds), asked.models):
        train_rows, test_rows = SETS[name]()
        random.Random(0).shuffle(test_rows)
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            files = (
                write(Path("train.csv"), sample(train_rows, size, seed)),
                write(Path("test.csv"), test_rows[:MOST_SCORED]),
            )

            def record(what: str, measured: dict[str, float]) -> None:
                line = {"set": name, "size": size, "model": model, "seed": seed, "what": what, **measured}  # noqa: B023
                with RESULTS.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")
                print(line, flush=True)

            if (name, size, model, seed, "baselines") not in done:
                record("baselines", baselines(*files, model))
            for what, options in {
                "defaults": {},
                **{f"{e:g} x {r:g}": {"epochs": e, "learning_rate": r} for e, r in grid},
            }.items():
                if (name, size, model, seed, what) not in done:
                    record(what, fine_tuned(*files, model, seed, **options))
            if len(train_rows[0]) == 2:
                for iterations in asked.setfit:
                    if (name, size, model, seed, what := f"SetFit {iterations}") not in done:
                        rows = sample(train_rows, size, seed), test_rows[:MOST_SCORED]
                        record(what, setfit(*rows, model, seed, iterations))
            os.chdir("/")


def results() -> list[dict[str, object]]:
    """What has been measured."""
    return [json.loads(line) for line in RESULTS.read_text(encoding="utf-8").splitlines()] if RESULTS.exists() else []


def table() -> str:
    """The medians over the seeds of each set, size and model."""
    lines: dict[tuple[str, str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for each in results():
        found = lines[str(each["model"]), str(each["set"]), str(each["size"])]
        if each["what"] == "baselines":
            for name in ("guess", "bag_of_words", "frozen"):
                found[name] += [each[name]] if name in each else []  # type: ignore[list-item]
        else:
            found[str(each["what"])].append(each["score"])  # type: ignore[arg-type]
    rows = [
        "| model | set | size | guess | bag of words | frozen features | no options | best of the grid |",
        "|" + " --- |" * 8,
    ]
    for key, found in lines.items():
        middle = {name: median(scores) for name, scores in found.items() if scores}
        grid = {name: score for name, score in middle.items() if " x " in name}
        best = max(grid, key=grid.__getitem__, default="")
        cells = [
            f"{middle[name]:.1f}" if name in middle else "–" for name in ("guess", "bag_of_words", "frozen", "defaults")
        ]
        rows.append(f"| {' | '.join([*key, *cells, f'{grid[best]:.1f} ({best})' if best else '–'])} |")
    return "\n".join(rows)


def main(arguments: list[str]) -> None:
    """Measure, or print the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--sets", nargs="*", default=list(SETS), choices=list(SETS))
    options.add_argument("--sizes", nargs="*", default=list(SIZES))
    options.add_argument("--models", nargs="*", default=["minilm", "bert-books"])
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--grid", type=int, default=len(GRID), help="number of settings of the grid")
    options.add_argument("--setfit", type=int, nargs="*", default=[], help="its pairs a text; it must be installed")
    options.add_argument("--table", action="store_true")
    asked = options.parse_args(arguments)
    logging.getLogger("bertcli").setLevel(logging.ERROR)
    os.environ["HF_HUB_OFFLINE"] = "1"
    if not asked.table:
        measure_all(asked, GRID[: asked.grid])
    print(table())
