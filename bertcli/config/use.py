"""The options of the commands that use a model."""

from dataclasses import dataclass
from typing import Literal

from bertcli.config.options import Config, argument, option
from bertcli.config.training import OwnDataConfig, Precision, Size

FeatureLayers = Literal["last", "second-to-last", "sum-last-four", "concat-last-four"]


Pooling = Literal["tokens", "cls", "mean"]


@dataclass(kw_only=True)
class EvaluateConfig(OwnDataConfig):
    """Options of `bert evaluate`; what is not said of own data comes from the run."""

    task: str = argument(
        "",
        "A task (see `bert tasks`), or your own files (CSV, TSV, JSONL, Parquet, CoNLL, SQuAD) or their folder.",
        "TASK or FILE...",
    )
    model: list[str] = option(
        [], "A run, a folder or a Hub name; default: the newest run of the task. Give it again to compare models."
    )
    data_dir: str | None = option(None, "Folder of the official files; default: the run's, $BERT_DATA, the Hub.")
    split: str = option("dev", "Which split to score.")
    predictions: str | None = option(None, "Score this file of predictions; needs no model.")
    na_probs: str | None = option(
        None, "No-answer scores of those predictions, such as null_odds.json: finds the best threshold (SQuAD 2.0)."
    )
    mistakes: int = option(0, "List so many of the worst mistakes.", minimum=0)
    precision: Precision = option("auto", "auto: bfloat16 on a GPU that has it, float32 elsewhere.")


@dataclass(kw_only=True)
class PredictConfig(Config):
    """Options of `bert predict`."""

    task: str = argument("", "A task (see `bert tasks`), to predict a split of it.", "TASK")
    data_dir: str | None = option(
        None, "With TASK: folder of the official files; default: the run's, $BERT_DATA, the Hub."
    )
    split: str = option("dev", "With TASK: which split to predict.")
    text: str | None = option(None, "A text; with [MASK] in it, the mask is filled.")
    text_pair: str | None = option(None, "The second text of a pair.")
    choice: list[str] = option([], "What may follow --text; give it once for each choice.")
    question: str | None = option(None, "A question about --context.")
    context: str | None = option(None, "Where the answer stands.")
    file: str | None = option(
        None, "Read CSV, TSV, JSONL, Parquet or plain text, one a line; - is standard input, of text or JSONL."
    )
    output: str | None = option(
        None, "Write CSV, TSV or JSONL here (- prints JSONL); for SQuAD predictions.json, its official form."
    )
    model: str | None = option(None, "A run, a folder or a Hub name; default: the newest run that fits.")
    features: str | None = option(None, "Write hidden states of a text or pair here: .parquet, .npz or .jsonl.")
    layers: FeatureLayers = option("last", "Of --features: last, second-to-last, sum-last-four or concat-last-four.")
    pooling: Pooling = option("tokens", "Of --features: each of the tokens; cls, that of [CLS]; or their mean.")
    top_k: int = option(5, "Fills shown for each [MASK].", minimum=1)
    precision: Precision = option(
        "auto",
        "auto: bfloat16 on a GPU or CPU that has it (tiny models and --features: float32 on a CPU); else float32.",
    )


@dataclass(kw_only=True)
class SubmitConfig(Config):
    """Options of `bert submit`."""

    benchmark: Literal["glue"] = argument("glue", "The leaderboard: glue.", "glue")
    runs: list[str] = argument(
        [], "Fine-tuned runs, one of each task; that of MNLI does AX too; default: the newest of each.", "RUN..."
    )
    data_dir: str | None = option(None, "Folder of the official files; default: the run's, $BERT_DATA, the Hub.")
    out: str = option("submission.zip", "File to write.")


@dataclass(kw_only=True)
class ConvertConfig(Config):
    """Options of `bert convert`."""

    source: str = argument("", "A checkpoint of the original (its folder or zip), a run or a model folder.", "SOURCE")
    out: str = option("converted", "Folder to write.")
    cased: bool = option(False, "The checkpoint is a cased one (its files do not say).")


@dataclass(kw_only=True)
class DemoConfig(Config):
    """Options of `bert demo`."""

    out: str = option("demo-output", "Folder to write; the demonstration's own is made anew.")
    size: Size = option("tiny", "Model size.")
    vocab_size: int = option(4000, "Tokens of the vocabulary.", minimum=10)
    steps: int = option(1300, "Pre-training steps.", minimum=1)
    batch_size: int = option(32, "Pre-training instances a step.", minimum=1)
    learning_rate: float = option(2e-3, "Peak learning rate of pre-training.", minimum=0)
    epochs: float = option(16, "Passes over the few questions of Banking77.", minimum=0)
    seeds: int = option(5, "Fine-tunings from each start.", minimum=1)
    finetuning_learning_rate: float = option(1e-3, "Peak learning rate of fine-tuning.", minimum=0)
    seed: int = option(0, "Seed of everything.", minimum=0)
