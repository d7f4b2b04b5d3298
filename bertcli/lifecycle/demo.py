"""The whole life of a model, from text to answers, on text that ships with the project, in a few minutes."""

import csv
import json
import shutil
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bertcli import say
from bertcli.config.recipes import recipes_folder
from bertcli.config.use import DemoConfig
from bertcli.data.labelled.official_files import read_columns
from bertcli.data.results import Result, Rows
from bertcli.errors import UserError
from bertcli.lifecycle.build_vocab import build_vocab
from bertcli.lifecycle.make_pretraining_data import make_pretraining_data
from bertcli.lifecycle.pretrain import pretrain
from bertcli.lifecycle.pretrained import BERT_BOOKS, MINILM
from bertcli.training.progress import said_into
from bertcli.training.run_folder import RunFolder

LOG = "log.txt"
MARK = ".bert-demo"  # marks a folder of the demonstration, which it may replace
QUESTIONS = (
    "My card still has not arrived, when will it come?",
    "How do I change my PIN?",
    "Why was I charged twice for the same thing?",
    "I left my phone on the train, what should I do?",
    "Which currencies can I hold in my account?",
)
SENTENCES = ("He put his [MASK] on the table.", "She opened the [MASK] and went out.", "It was a dark [MASK].")
HELD_OUT: dict[str, Any] = {"max_seq_length": 64, "max_predictions_per_seq": 10, "dupe_factor": 1}
# With 35 % of tokens masked (Wettig et al., 2022), 800 steps reach what took 1,300 with 15 %.
DATA = HELD_OUT | {"masked_lm_prob": 0.35, "max_predictions_per_seq": 22, "dupe_factor": 2}
QUICKLY: dict[str, Any] = {"optimizer": "adamw", "embeddings": "cooccurrence"}
QUICKLY |= {"initializer_range": 0.05, "dropout": 0.0}
TRAIN_PER_CLASS = 10  # questions
COLUMNS = {"text": "text", "label": "category"}


@dataclass(frozen=True)
class Demonstration(Result):
    """What the demonstration measured, in percent."""

    out: str
    seconds: float
    pretraining: list[dict[str, Any]] = field(default_factory=list)  # step, loss and accuracies on held-out text
    fills: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  # of masks, by sentence
    scores: dict[str, dict[str, float]] = field(default_factory=dict)  # test accuracy and seconds, by what was tried
    predictions: list[dict[str, Any]] = field(default_factory=list)
    report: str = ""

    @property
    def rows(self) -> Rows:
        """A row a model: its test accuracy and seconds."""
        return [{"model": name, **scores} for name, scores in self.scores.items()]


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

    pretrained, curve = _pretrain(config, shipped, out)
    with said_into(out / LOG, "filling masks"):
        fills = {text: next(iter(predict(text, model=pretrained, top_k=3).records))["fills"] for text in SENTENCES}
    words = {text: f"[{' / '.join(fill['token'] for fill in each)}]" for text, each in fills.items()}
    say(f"   what it fills in: {'; '.join(text.replace('[MASK]', each) for text, each in words.items())}")
    scores, best = _sort_questions(config, shipped, out, pretrained)
    with said_into(out / LOG, "answering"):
        found = [(text, record) for text in QUESTIONS for record in predict(text, model=str(best)).records]
    predictions = [{"text": text, "label": record["label"], "score": record["score"]} for text, record in found]
    seconds = round(time.perf_counter() - started, 1)
    result = Demonstration(str(out), seconds, curve, fills, scores, predictions, str(best / "report.html"))
    (out / "demo.json").write_text(json.dumps(asdict(result), indent=2) + "\n", encoding="utf-8")
    return result


def _clear(out: Path) -> None:
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        if not (out / MARK).exists():
            raise UserError(f"`{out}` holds something else.", "Give another: --out NEW-FOLDER")
        shutil.rmtree(out)
    out.mkdir(parents=True, exist_ok=True)
    (out / MARK).touch()


def _pretrain(config: DemoConfig, shipped: Path, out: Path) -> tuple[str, list[dict[str, Any]]]:
    """Make a vocabulary and data, and pre-train; return the run, and how it went on held-out text."""
    say("1  A vocabulary, and pre-training data")
    books, vocab, data, held_out = str(shipped / "books"), str(out / "vocab"), str(out / "data"), str(out / "held-out")
    with said_into(out / LOG, "building a vocabulary and making data"):
        build_vocab(books, vocab_size=config.vocab_size, out=vocab)
        made = make_pretraining_data(books, tokenizer=vocab, out=data, **DATA)
        make_pretraining_data(str(shipped / "held-out"), tokenizer=vocab, out=held_out, **HELD_OUT)
    say(f"   {config.vocab_size:,} word pieces of seven novels, {made.instances:,} instances of 64 tokens, 35 % masked")
    say(f"2  Pre-training a {config.size} BERT, {config.steps:,} steps; scored on a novel held out (The Time Machine)")
    asked = {name: getattr(config, name) for name in ("size", "steps", "batch_size", "learning_rate", "seed")}
    folders: dict[str, Any] = {"data": data, "eval_data": held_out, "out": str(out / "runs" / "pretrained")}
    with said_into(out / LOG, f"pre-training, {config.steps:,} steps (the log is {out / LOG})"):
        run = pretrain(**asked, **QUICKLY, **folders, eval_steps=max(1, config.steps // 4)).run
    curve = [{"step": line["step"], **line["metrics"]} for line in RunFolder(Path(run)).metrics() if "metrics" in line]
    for each in curve:
        words = f"masked-LM loss {each['masked_lm_loss']:.2f}, masked-word accuracy {each['masked_lm_accuracy']:.1f} %"
        say(f"   step {each['step']:>5,}: {words}")
    say(f"   always guessing the most frequent word: {curve[-1]['most_frequent_token_accuracy']:.1f} %")
    return run, curve


def _few_questions(shipped: Path, out: Path) -> Path:
    """Write the first questions of each class."""
    table = read_columns(shipped / "banking77" / "train.csv.xz", COLUMNS)
    seen: Counter[str] = Counter()
    path = out / "questions.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS.values())
        for text, label in zip(table.texts, table.labels or [], strict=True):
            seen[label] += 1
            if seen[label] <= TRAIN_PER_CLASS:
                writer.writerow([text, label])
    return path


def _sort_questions(
    config: DemoConfig, shipped: Path, out: Path, pretrained: str
) -> tuple[dict[str, dict[str, float]], Path]:
    """Learn to sort questions to a bank in several ways; return the test accuracy and the seconds of each, and the last run."""
    from bertcli.lifecycle.evaluate import evaluate
    from bertcli.lifecycle.finetune import finetune

    questions, test = str(_few_questions(shipped, out)), str(shipped / "banking77" / "test.csv.xz")
    say("3  Sorting questions to a bank into 77 classes, learnt from 10 each (Banking77)")
    with said_into(out / LOG, "guessing, and counting words"):
        scores = _baselines(questions, test)
    starts: dict[str, dict[str, Any]] = {
        "random weights": {"from_": "scratch", "size": config.size, "tokenizer": str(out / "vocab")},
        "the model just pre-trained": {"from_": pretrained},
        BERT_BOOKS.name: {"from_": BERT_BOOKS.name},
        **({MINILM.name: {"from_": MINILM.name}} if MINILM.folder else {}),
    }
    for name, options in starts.items():
        began, folder = time.perf_counter(), out / "runs" / name.replace(" ", "-")
        with said_into(out / LOG, f"fine-tuning {name}"):
            finetune(questions, out=str(folder), seed=config.seed, baseline=name == MINILM.name, **options)
            accuracy = evaluate(test, model=[str(folder)]).metrics["accuracy"]
        scores[name] = {"accuracy": accuracy, "seconds": round(time.perf_counter() - began, 1)}
    return scores, folder


def _baselines(questions: str, test: str) -> dict[str, dict[str, float]]:
    from bertcli.kinds.kind import Split
    from bertcli.lifecycle.baselining.beside_finetuning import predict_baselines
    from bertcli.lifecycle.own_files import own_task
    from bertcli.lifecycle.scoring.scores import score

    began = time.perf_counter()
    (task, parts), (_, scored) = own_task(questions, {}, None), own_task(test, {}, None, scored="test")
    left = Split("test", scored["test"])
    found = predict_baselines(task, parts["train"], left.examples)
    seconds = round(time.perf_counter() - began, 1)
    right = {name.replace("_", " "): score(task, left, each)["accuracy"] for name, each in found.items()}
    return {name: {"accuracy": accuracy, "seconds": seconds} for name, accuracy in right.items()}
