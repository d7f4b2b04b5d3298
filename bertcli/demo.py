"""The whole life of a model on the text that ships, in a few minutes."""

from __future__ import annotations

import json
import logging
import shutil
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bertcli.config import DemoConfig, recipes_folder
from bertcli.data.task_files import read_table
from bertcli.errors import UserError
from bertcli.evaluation import evaluate
from bertcli.finetuning import finetune
from bertcli.prediction import predict
from bertcli.pretraining import pretrain
from bertcli.pretraining_data import make_pretraining_data
from bertcli.training.result import TrainingResult
from bertcli.training.run_folder import RunFolder
from bertcli.vocabulary import build_vocab

logger = logging.getLogger("bertcli")
MARK = ".bert-demo"  # says that a folder is the demonstration's own, and may be made anew
QUESTIONS = (
    "My card still has not arrived, when will it come?",
    "How do I change my PIN?",
    "Why was I charged twice for the same thing?",
)
DATA = {"max_seq_length": 64, "max_predictions_per_seq": 10, "dupe_factor": 4}
COLUMNS = {"text": "text", "label": "category"}


@dataclass(frozen=True)
class Demonstration:
    """What the demonstration measured; shares are times 100."""

    out: str
    seconds: float
    measures: list[dict[str, Any]] = field(default_factory=list)
    predictions: list[dict[str, Any]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """The result as `--json` prints it."""
        return asdict(self)


def demo(config: DemoConfig | None = None, **options: Any) -> Demonstration:
    """Build a vocabulary, make data, pre-train, fine-tune, evaluate and predict, on text that ships with the project."""
    config = DemoConfig.build(config, options)
    started = time.perf_counter()
    shipped, out = recipes_folder() / "demo", Path(config.out)
    if config.dry_run:
        logger.info("would run the whole flow on %s and write %s", shipped, out)
        return Demonstration(str(out), 0.0)
    _clear(out)
    books = str(shipped / "books")
    _say("1  Build a vocabulary of %s tokens from seven novels", f"{config.vocab_size:,}")
    build_vocab(books, vocab_size=config.vocab_size, out=str(out / "vocab"))
    _say("2  Make pre-training data, and data of a novel held out")
    for text, name in ((books, "pretraining-data"), (str(shipped / "held-out"), "held-out-data")):
        make_pretraining_data(text, tokenizer=str(out / "vocab"), out=str(out / name), **DATA)
    _say("3  Pre-train a %s BERT for %s steps", config.size, f"{config.steps:,}")
    pretrained = _pretrain(config, out)
    _say("4  Fine-tune it on Banking77: 77 kinds of questions to a bank; and the same from random weights")
    scores, best = _finetune_and_evaluate(config, shipped, out, pretrained)
    _say("5  Predict")
    predictions = [
        {"text": text, **{key: record[key] for key in ("label", "score")}}
        for text in QUESTIONS
        for record in predict(text, model=best).records
    ]
    measures = [*_pretraining_measures(RunFolder(Path(pretrained.run))), _task_measure(shipped, scores)]
    result = Demonstration(str(out), round(time.perf_counter() - started, 1), measures, predictions)
    (out / "demo.json").write_text(json.dumps(result.to_json(), indent=2) + "\n", encoding="utf-8")
    return result


def _clear(out: Path) -> None:
    if out.exists() and any(out.iterdir()):
        if not (out / MARK).exists():
            raise UserError(f"`{out}` holds something else.", "Give another: --out NEW-FOLDER")
        shutil.rmtree(out)
    out.mkdir(parents=True, exist_ok=True)
    (out / MARK).touch()


def _say(step: str, *values: object) -> None:
    logger.info(f"\n{step}", *values)


def _pretrain(config: DemoConfig, out: Path) -> TrainingResult:
    return pretrain(
        size=config.size, steps=config.steps, batch_size=config.batch_size, learning_rate=config.learning_rate, optimizer="adamw",
        data=str(out / "pretraining-data"), eval_data=str(out / "held-out-data"), eval_steps=max(1, config.steps // 4),
        seed=config.seed, out=str(out / "runs" / "pretrained"),
    )  # fmt: skip


def _finetune_and_evaluate(
    config: DemoConfig, shipped: Path, out: Path, pretrained: TrainingResult
) -> tuple[dict[str, float], str]:
    """Fine-tune from each start in the same way; return the test accuracy of each, and the best run."""
    starts = {"pretrained": pretrained.model, "scratch": "scratch"}
    if (shipped / "model").exists():
        starts["shipped"] = str(shipped / "model")
    scores = {}
    for name, start in starts.items():
        fresh = {"size": config.size, "tokenizer": str(out / "vocab")} if start == "scratch" else {}
        run = finetune(
            str(shipped / "banking77" / "train.csv.xz"), label="category", from_=start, epochs=config.epochs,
            learning_rate=config.finetuning_learning_rate, max_seq_length=64, seed=config.seed,
            out=str(out / "runs" / f"banking77-{name}"), **fresh,
        )  # fmt: skip
        scores[name] = evaluate(str(shipped / "banking77" / "test.csv.xz"), model=run.run).metrics["accuracy"]
        logger.info("test accuracy from %s: %.1f", "random weights" if start == "scratch" else start, scores[name])
    best = max(scores, key=lambda name: scores[name])
    return scores, str(out / "runs" / f"banking77-{best}")


def _pretraining_measures(run: RunFolder) -> list[dict[str, Any]]:
    """Accuracy on the held-out novel, before and after pre-training, beside guessing."""
    measured = [line["metrics"] for line in run.metrics() if "metrics" in line]
    before, after = measured[0], measured[-1]
    return [
        {
            "what": what, "on": "The Time Machine, held out", "guess": guess, "guessing": after[baseline],
            "random weights": before[metric], "pre-trained": after[metric],
        }
        for what, metric, guess, baseline in (
            ("masked words found", "masked_lm_accuracy", "the most frequent token", "most_frequent_token_accuracy"),
            ("next sentence told", "next_sentence_accuracy", "the commoner answer", "majority_next_sentence_accuracy"),
        )
    ]  # fmt: skip


def _task_measure(shipped: Path, scores: dict[str, float]) -> dict[str, Any]:
    """Accuracy on the test questions, from pre-trained and from random weights, beside the majority class."""
    train = Counter(read_table(shipped / "banking77" / "train.csv.xz", COLUMNS).labels or [])
    test = read_table(shipped / "banking77" / "test.csv.xz", COLUMNS).labels or []
    majority = 100 * test.count(train.most_common(1)[0][0]) / len(test)
    measure = {
        "what": "questions sorted", "on": f"Banking77, {len(test):,} test questions", "guess": "the most frequent label",
        "guessing": round(majority, 4), "random weights": scores["scratch"], "pre-trained": scores["pretrained"],
    }  # fmt: skip
    return {**measure, "shipped model": scores["shipped"]} if "shipped" in scores else measure
