"""The options of the commands that train."""

from dataclasses import dataclass
from typing import Literal

from bertcli.config.options import Config, argument, option

Size = Literal["tiny", "mini", "small", "medium", "base", "large"]


Precision = Literal["auto", "float32", "bfloat16", "float16"]


Optimizer = Literal["bert", "adamw"]


Kind = Literal["classify", "regress", "multilabel", "choose", "tag", "span"]


FrozenLayers = Literal[
    "embeddings", "second-to-last", "last", "weighted-sum-last-four", "concat-last-four", "weighted-sum-all", "all"
]


@dataclass(kw_only=True)
class TrainingConfig(Config):
    """Options that both trainings share."""

    from_: str | None = option(None, "Start from a run, a folder or a Hub name.")
    tokenizer: str | None = option(None, "Folder, Hub name or vocab.txt, checked against the model.")
    out: str | None = option(None, "Run folder; default: a new one under runs/.")
    seed: int = option(0, "Seed of weights, order, masks and dropout.", minimum=0)
    resume: bool = option(False, "Go on with the newest unfinished run (or the one in --out).")
    precision: Precision = option(
        "auto",
        "auto: bfloat16 on a GPU or CPU that has it (tiny models are fine-tuned in float32 on a CPU); else float32.",
    )
    processes: int = option(1, "Processes that share each batch, one a device.", minimum=1)
    micro_batch_tokens: int | None = option(
        None, "Tokens in one forward pass, default by the device; larger batches accumulate gradients.", minimum=1
    )
    save_steps: int = option(1000, "Steps between checkpoints.", minimum=1)
    eval_steps: int | None = option(
        None, "Steps between evaluations; default: fine-tuning, each epoch; pre-training, at the end.", minimum=1
    )
    log_steps: int | None = option(None, "Steps between log lines; default: about fifty in a run.", minimum=1)
    track: str | None = option(None, "A tracker of Accelerate: tensorboard, wandb, ...")


@dataclass(kw_only=True)
class PretrainConfig(TrainingConfig):
    """Options of `bert pretrain` (defaults of the paper, appendix A.2)."""

    size: Size = option("base", "Model size: tiny, mini, small, medium, base, large.")
    data: str | None = option(None, "Pre-training data; default: the newest here.")
    eval_data: str | None = option(
        None, "Held-out pre-training data to measure on; default: rows of --data, as the original."
    )
    objective: str | None = option(
        None, "Pre-training objective: mlm+nsp or mlm; default: mlm+nsp where the data are pairs, else mlm."
    )
    steps: int = option(1_000_000, "Updates of the weights.", minimum=1)
    batch_size: int = option(256, "Instances a step, over all processes.", minimum=1)
    learning_rate: float = option(1e-4, "Peak learning rate.", minimum=0)
    warmup_steps: int | None = option(
        None, "Steps of warm-up; default: 10,000, at most a tenth of the steps.", minimum=0
    )
    optimizer: Optimizer = option("bert", "bert: the original's Adam, without bias correction; adamw: with.")
    initializer_range: float = option(0.02, "Deviation of new weights.", minimum=0)
    embeddings: Literal["random", "cooccurrence"] = option(
        "random", "cooccurrence: start from which tokens stand near which in the data, to leave the plateau sooner."
    )
    dropout: float | None = option(None, "Share of values dropped; default: the model's, 0.1.", minimum=0, maximum=0.9)


@dataclass(kw_only=True)
class OwnDataConfig(Config):
    """Options that say what own data are."""

    text: str | None = option(None, "Column of the text, for your own file.")
    text_pair: str | None = option(None, "Column of the second text.")
    label: str | None = option(None, "Column of the label; several of 0 and 1 with commas between.")
    kind: Kind | None = option(
        None, "classify, regress, multilabel, choose or tag, for your own file; default: inferred from it."
    )


@dataclass(kw_only=True)
class FinetuneConfig(TrainingConfig, OwnDataConfig):
    """Options of `bert finetune`; what is not given comes from the task."""

    task: str = argument(
        "",
        "A task (see `bert tasks`), or your own files (CSV, TSV, JSONL, Parquet, CoNLL, SQuAD) or their folder.",
        "TASK or FILE...",
    )
    size: Size | None = option(None, "Model size for --from scratch.")
    data_dir: str | None = option(None, "Folder of the official files; default: $BERT_DATA, else the Hub.")
    epochs: float | None = option(
        None, "Passes over the training data; default: the task's, 10 with --frozen.", minimum=0.001
    )
    batch_size: int | None = option(None, "Examples a step, over all processes.", minimum=1)
    learning_rate: float | None = option(
        None,
        "Peak learning rate; default: the task's, 1e-4 for small and medium, 3e-4 for mini, 1e-3 for tiny and with --frozen.",
        minimum=0,
    )
    warmup_proportion: float = option(0.1, "Share of the steps spent on warm-up.", minimum=0, maximum=1)
    max_seq_length: int | None = option(None, "Longest input, in tokens.", minimum=5)
    doc_stride: int = option(
        128, "Step between windows over a long context; over a long sentence of tags, at most half a window.", minimum=1
    )
    max_query_length: int = option(64, "Span tasks: longest question, in tokens.", minimum=1)
    limit: int | None = option(None, "Train on this many examples, drawn by the seed.", minimum=1)
    seeds: int = option(1, "Train with so many seeds, --seed the first; the best on dev is kept.", minimum=1)
    grid: Literal["paper"] | None = option(
        None,
        "paper: try batch sizes 16, 32, rates 5e-5, 3e-5, 2e-5 and 2, 3, 4 epochs (those not given); keep the best on dev.",
    )
    class_weights: Literal["balanced"] | None = option(
        None, "balanced: in the loss of a classification, rare labels weigh as much as frequent ones."
    )
    frozen: bool = option(
        False, "Token labelling: leave the BERT as it is, and train a two-layer BiLSTM on its features (section 5.3)."
    )
    frozen_layers: FrozenLayers | None = option(
        None,
        "With --frozen, the hidden states it reads: embeddings, second-to-last, last, weighted-sum-last-four, "
        "concat-last-four (the default), weighted-sum-all; all: each in turn, beside the paper's Table 7.",
    )
    patience: int | None = option(
        None, "Stop after this many evaluations without a better score; default: make all steps.", minimum=1
    )
    optimizer: Optimizer = option("adamw", "adamw: with bias correction; bert: the original's, without.")
