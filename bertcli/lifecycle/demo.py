"""Every step from text to predictions, on text that ships with the project, in a few minutes."""

import csv
import json
import shutil
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from bertcli import say
from bertcli.config.recipes import recipes_folder, shipped_model
from bertcli.config.use import DemoConfig
from bertcli.data.labelled.official_files import read_columns
from bertcli.errors import UserError
from bertcli.lifecycle.build_vocab import build_vocab
from bertcli.lifecycle.make_pretraining_data import make_pretraining_data
from bertcli.lifecycle.pretrain import pretrain
from bertcli.training.result import TrainingResult
from bertcli.training.run_folder import RunFolder

MARK = ".bert-demo"  # marks a folder of the demonstration, which it may replace
QUESTIONS = (
    "My card still has not arrived, when will it come?",
    "How do I change my PIN?",
    "Why was I charged twice for the same thing?",
)
DATA = {"max_seq_length": 64, "max_predictions_per_seq": 10, "dupe_factor": 4}
QUICKLY: dict[str, Any] = {
    "optimizer": "adamw",
    "embeddings": "cooccurrence",
    "initializer_range": 0.05,
    "dropout": 0.0,
}
TRAIN_PER_CLASS, DEV_PER_CLASS = 10, 2  # questions
COLUMNS = {"text": "text", "label": "category"}


@dataclass(frozen=True)
class Demonstration:
    """What the demonstration measured, in percent."""

    out: str
    seconds: float
    measures: list[dict[str, Any]] = field(default_factory=list)
    predictions: list[dict[str, Any]] = field(default_factory=list)


def demo(config: DemoConfig | None = None, **options: Any) -> Demonstration:
    """Build a vocabulary, make data, pre-train, fine-tune, evaluate and predict, on text that ships with the project."""
    config = DemoConfig.build(config, options)
    started = time.perf_counter()
    shipped, out = recipes_folder() / "demo", Path(config.out)
    if config.dry_run:
        say(f"would run the whole flow on {shipped} and write {out}")
        return Demonstration(str(out), 0.0)
    _clear(out)
    from bertcli.lifecycle.predict import predict

    books = str(shipped / "books")
    say(f"\n1  Build a vocabulary of {config.vocab_size:,} tokens from seven novels")
    build_vocab(books, vocab_size=config.vocab_size, out=str(out / "vocab"))
    say("\n2  Make pre-training data, and data of a novel held out")
    for text, name in ((books, "pretraining-data"), (str(shipped / "held-out"), "held-out-data")):
        make_pretraining_data(text, tokenizer=str(out / "vocab"), out=str(out / name), **DATA)
    say(f"\n3  Pre-train a {config.size} BERT for {config.steps:,} steps")
    pretrained = _pretrain(config, out)
    say("\n4  Fine-tune it on few questions to a bank, of 77 classes (Banking77)")
    say("   and for comparison, a model of random weights and the model that ships")
    scores, best = _finetune_and_evaluate(config, shipped, out, pretrained)
    say("\n5  Predict")
    predictions = [
        {"text": text, **{key: record[key] for key in ("label", "score")}}
        for text in QUESTIONS
        for record in predict(text, model=best).records
    ]
    measures = [*_pretraining_measures(RunFolder(Path(pretrained.run))), _task_measure(shipped, scores)]
    result = Demonstration(str(out), round(time.perf_counter() - started, 1), measures, predictions)
    (out / "demo.json").write_text(json.dumps(asdict(result), indent=2) + "\n", encoding="utf-8")
    return result


def _clear(out: Path) -> None:
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        if not (out / MARK).exists():
            raise UserError(f"`{out}` holds something else.", "Give another: --out NEW-FOLDER")
        shutil.rmtree(out)
    out.mkdir(parents=True, exist_ok=True)
    (out / MARK).touch()


def _pretrain(config: DemoConfig, out: Path) -> TrainingResult:
    asked = {name: getattr(config, name) for name in ("size", "steps", "batch_size", "learning_rate", "seed")}
    paths = {"data": "pretraining-data", "eval_data": "held-out-data", "out": "runs/pretrained"}
    folders: dict[str, Any] = {name: str(out / path) for name, path in paths.items()}
    return pretrain(**asked, **QUICKLY, **folders, eval_steps=max(1, config.steps // 4))


def _few_questions(shipped: Path, out: Path) -> str:
    """Write the first questions of each class to train on, and the next ones to choose the best epoch on."""
    table = read_columns(shipped / "banking77" / "train.csv.xz", COLUMNS)
    seen: Counter[str] = Counter()
    rows: dict[str, list[tuple[str, str]]] = {"train": [], "dev": []}
    for text, label in zip(table.texts, table.labels or [], strict=True):
        seen[label] += 1
        if seen[label] <= TRAIN_PER_CLASS + DEV_PER_CLASS:
            rows["train" if seen[label] <= TRAIN_PER_CLASS else "dev"].append((text, label))
    folder = out / "banking77"
    folder.mkdir()
    for name, examples in rows.items():
        with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([tuple(COLUMNS.values()), *examples])
    return str(folder)


def _finetune_and_evaluate(
    config: DemoConfig, shipped: Path, out: Path, pretrained: TrainingResult
) -> tuple[dict[str, float], str]:
    """Fine-tune from each start with the same seeds; return the median test accuracy of each, and the best run."""
    from bertcli.lifecycle.evaluate import evaluate
    from bertcli.lifecycle.finetune import finetune

    questions, test = _few_questions(shipped, out), str(shipped / "banking77" / "test.csv.xz")
    starts = {"random weights": "scratch", "pre-trained": pretrained.model, "shipped model": shipped_model()}
    settings = {"epochs": config.epochs, "learning_rate": config.finetuning_learning_rate}
    settings |= {"seed": config.seed, "seeds": config.seeds}
    scores = {}
    for name, start in starts.items():
        options: dict[str, Any] = {"from_": start, "out": str(out / "runs" / _slug(name)), **settings}
        if start == "scratch":
            options |= {"size": config.size, "tokenizer": str(out / "vocab")}
        run = finetune(questions, label="category", max_seq_length=64, **options)
        runs = [part["run"] for part in run.runs or []] or [run.run]
        scores[name] = median(evaluate(test, model=[part]).metrics["accuracy"] for part in runs)
        say(f"test accuracy from {name}, median of {len(runs)} seeds: {scores[name]:.1f}")
    best = max(scores, key=lambda name: scores[name])
    return scores, str(out / "runs" / _slug(best))


def _slug(name: str) -> str:
    return f"banking77-{name.replace(' ', '-')}"


def _pretraining_measures(run: RunFolder) -> list[dict[str, Any]]:
    """Accuracy on the held-out novel, before and after pre-training, beside guessing."""
    measured = [line["metrics"] for line in run.metrics() if "metrics" in line]
    before, after = measured[0], measured[-1]
    of_novel = {"on": "The Time Machine, held out"}
    return [
        {"what": what, **of_novel, "guess": guess, "guessing": after[baseline]}
        | {"random weights": before[metric], "pre-trained": after[metric]}
        for what, metric, guess, baseline in (
            ("masked-word accuracy", "masked_lm_accuracy", "most frequent token", "most_frequent_token_accuracy"),
            ("next-sentence accuracy", "next_sentence_accuracy", "majority", "majority_next_sentence_accuracy"),
        )
    ]


def _task_measure(shipped: Path, scores: dict[str, float]) -> dict[str, Any]:
    """Median accuracy on the test questions from each start, beside that of predicting one class."""
    test = Counter(read_columns(shipped / "banking77" / "test.csv.xz", COLUMNS).labels or [])
    return {
        "what": f"question accuracy, {TRAIN_PER_CLASS} training questions per class",
        "on": f"Banking77, {test.total():,} test questions",
        "guess": "one class for all",
        "guessing": round(100 * max(test.values()) / test.total(), 4),
        **scores,
    }
