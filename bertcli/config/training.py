"""Options of the commands that train."""

from dataclasses import dataclass

from bertcli.config.architecture import ArchitectureConfig
from bertcli.config.data import MASK_SHARES, NGRAM_MASK, OBJECTIVE, SPAN_MASK
from bertcli.config.options import MAX_SEED, Config, option
from bertcli.families import objectives, sizes
from bertcli.families.family import SCHEDULES
from bertcli.tasks.paper import FROZEN_SCORES

PRECISIONS = ("auto", "float32", "bfloat16", "float16")
AUTO = "{choices}; auto: bfloat16 on hardware that supports it, else float32"
LONG_TEXTS = (CUT, WINDOWS) = ("cut", "windows")
DATA = "Pre-training data, a folder or a URL; one for each of --phases, with commas; default: the latest folder here."
FLOPS = "In place of --steps: floating-point operations of the training (1e15), to compare models at equal compute."
PHASES = "Lengths and shares of the steps, as 128:0.9,512:0.1, the paper's; default: all steps on --data of any length."
DATA_CACHE = "Maximum size of the data cache in GB; larger data are shuffled a few shards at a time."
OPTIMIZERS = ("bert", "adamw", "lamb")
OPTIMIZER = "bert: Adam without bias correction, as in the original; adamw: with it; lamb: for very large batches."
MASKING = ("masked_lm_prob", "mask_shares", "whole_word_mask", "span_mask", "ngram_mask")  # of dynamic masks
OF_DATA = "with dynamic masks; default: the data's."
BETA2 = "Decay of the second moments; default: the family's, 0.999."
SCHEDULE = "Learning-rate schedule: linear decay from step 0 (bert) or from the end of the warm-up (linear), cosine decay from step 0 (cosine) or from the end of the warm-up (linear-cosine), warm-up multiplied by linear decay (multiplied), or no decay (constant); default: the family's."
GENERATOR = "ELECTRA: hidden size of a new generator, as a fraction of the model's; default: 1/4, for base 1/3."
SPAN_HEAD = "ELECTRA, ALBERT and XLNet, span tasks: joint: the authors' head, whose ends depend on starts; default: two logits a token."
LAYER_DECAY = "Factor of the learning rate from each layer to the one below; default: the family's, 1 or ELECTRA's 0.8."
MEMORY = "XLNet: number of preceding tokens that each row attends to, without gradients; default: 0."
EMBEDDINGS = "New token embeddings: random, or cooccurrence: from counts in the data, which shortens the first plateau."
FROZEN = "With --frozen, the hidden states to read (default: concat-last-four): {choices}; all: each, beside Table 7."
GRID = "paper: try batch sizes, learning rates and epochs of appendix A.3 (those not given); the best on dev is kept."
LONG = "Texts longer than --max-seq-length: cut them, or average the outputs of windows over them: {choices}."
RATE = "Peak learning rate; default: by the width of the model, for base and large the task's, 1e-3 with --frozen."
MOST_TOKENS = (
    "Maximum input length in tokens; default: the task's; for your own texts what the longest needs, up to 512."
)
STRIDE = "Stride between the windows over a long context, sentence or text; default for texts: no overlap."
TASK = "A task (see `bert tasks`), or your own files (CSV, TSV, JSONL, Parquet, CoNLL, SQuAD) or their folder."


def own_kinds() -> list[str]:
    """Names of the kinds of task that can be learnt from the user's own files."""
    from bertcli.kinds import KINDS

    return [kind.name for kind in KINDS.values() if kind.metrics]


@dataclass(kw_only=True)
class TrainingConfig(Config):
    """Options of pre-training and fine-tuning."""

    from_: str | None = option(None, "Run, folder or Hub name of the model to start from.")
    tokenizer: str | None = option(None, "Folder, Hub name or vocab.txt; must match the model.")
    out: str | None = option(None, "Run folder; default: a new one under runs/.")
    seed: int = option(0, "Random seed of new weights, data order, masks and dropout.", minimum=0, maximum=MAX_SEED)
    resume: bool = option(False, "Resume the latest unfinished run (or the one in --out), or start it.")
    precision: str = option("auto", f"{AUTO} (also for fine-tuning tiny models on a CPU).", choices=PRECISIONS)
    processes: int = option(1, "Number of processes that share each batch, one per device.", minimum=1)
    micro_batch_tokens: int | None = option(None, "Tokens per micro-batch; default: by device.", minimum=1)
    gradient_checkpointing: bool = option(False, "Compute layers again in the backward pass: less memory, more time.")
    save_steps: int = option(1000, "Maximum number of steps between checkpoints.", minimum=1)
    save_minutes: float = option(30.0, "Maximum minutes between checkpoints; the first comes after one.", minimum=0)
    auto_batch_size: bool = option(False, "If memory runs out, halve the micro-batches; the result is the same.")
    eval_steps: int | None = option(
        None, "Steps between evaluations; default: an epoch in fine-tuning, all steps in pre-training.", minimum=1
    )
    log_steps: int | None = option(None, "Steps between log lines; default: about fifty lines per run.", minimum=1)
    weight_decay: float | None = option(None, "Weight decay; default: the family's, 0.01.", minimum=0)
    adam_beta2: float | None = option(None, BETA2, minimum=0, maximum=1)
    adam_epsilon: float | None = option(None, "Epsilon of the optimizer; default: the family's, 1e-6.", minimum=0)
    max_grad_norm: float | None = option(None, "Maximum gradient norm, 0: none; default: the family's, 1.", minimum=0)
    schedule: str | None = option(None, SCHEDULE, choices=SCHEDULES)
    track: str | None = option(None, "Experiment tracker supported by Accelerate: tensorboard, wandb, ...")


@dataclass(kw_only=True)
class PretrainConfig(TrainingConfig, ArchitectureConfig):
    """Options of `bert pretrain` (defaults of the paper, appendix A.2)."""

    size: str | None = option("base", "Size of new weights: {choices}.", choices=sizes)
    data: str | None = option(None, DATA)
    phases: str | None = option(None, PHASES)
    data_cache_gb: float = option(20.0, DATA_CACHE, minimum=0)
    eval_data: str | None = option(None, "Held-out data for evaluation; default: part of --data, as in the original.")
    objective: str | None = option(None, f"{OBJECTIVE}; default: the data's, mlm+nsp for pairs.", choices=objectives)
    steps: int = option(1_000_000, "Number of training steps.", minimum=1)
    flops: float | None = option(None, FLOPS, minimum=1)
    batch_size: int = option(256, "Instances per step, over all processes.", minimum=1, maximum=10**6)
    learning_rate: float = option(1e-4, "Peak learning rate.", minimum=0)
    warmup_steps: int | None = option(None, "Warm-up steps; default: 10,000, at most a tenth of all.", minimum=0)
    masked_lm_prob: float | None = option(None, f"Proportion of masked tokens; {OF_DATA}", minimum=0, maximum=1)
    mask_shares: str | None = option(None, f"{MASK_SHARES[:-1]}; {OF_DATA}")
    whole_word_mask: bool = option(False, "With dynamic masks: mask all pieces of a word together.")
    ngram_mask: int | None = option(None, f"{NGRAM_MASK[:-1]}; {OF_DATA}", minimum=0)
    span_mask: bool = option(False, f"With dynamic masks: {SPAN_MASK[0].lower()}{SPAN_MASK[1:]}")
    optimizer: str = option("bert", OPTIMIZER, choices=OPTIMIZERS)
    initializer_range: float = option(0.02, "Standard deviation of newly initialized weights.", minimum=0)
    memory: int | None = option(None, MEMORY, minimum=0)
    generator_size: float | None = option(None, GENERATOR, minimum=0.01, maximum=1)
    embeddings: str = option("random", EMBEDDINGS, choices=("random", "cooccurrence"))
    dropout: float | None = option(None, "Dropout probability; default: the model's, 0.1.", minimum=0, maximum=0.9)
    keep_steps: str | None = option(None, "Also keep the models of these steps (200,400), in models/step-N.")


@dataclass(kw_only=True)
class OwnDataConfig(Config):
    """Options that describe labelled data: a task, or the user's own files."""

    task: str = option("", TASK, metavar="TASK or FILE...")
    text: str | None = option(None, "Own files: column of the text.")
    text_pair: str | None = option(None, "Own files: column of the second text.")
    label: str | None = option(None, "Own files: column of the label; several columns of 0 and 1 separated by commas.")
    kind: str | None = option(None, "Own files: {choices}; default: inferred from the file.", choices=own_kinds)


@dataclass(kw_only=True)
class FinetuneConfig(TrainingConfig, ArchitectureConfig, OwnDataConfig):
    """Options of `bert finetune`; defaults that are None come from the task."""

    data_dir: str | None = option(None, "Folder of the official files; default: $BERT_DATA, else the Hub.")
    epochs: float | None = option(
        None, "Number of epochs; default: the task's, more for few examples, 10 with --frozen.", minimum=0.001
    )
    batch_size: int | None = option(None, "Examples per step, all processes; default: the task's or fewer.", minimum=1)
    learning_rate: float | None = option(None, RATE, minimum=0)
    warmup_proportion: float = option(0.1, "Proportion of the steps used for warm-up.", minimum=0, maximum=1)
    max_seq_length: int | None = option(None, MOST_TOKENS, minimum=5)
    long_texts: str = option(CUT, LONG, choices=LONG_TEXTS)
    doc_stride: int = option(128, STRIDE, minimum=1)
    max_query_length: int = option(64, "Span tasks: maximum length of a question in tokens.", minimum=1)
    max_answer_length: int = option(30, "Span tasks: maximum length of a predicted answer in tokens.", minimum=1)
    limit: int | None = option(None, "Train on this many examples, drawn by the seed.", minimum=1)
    limit_dev: int | None = option(None, "Score dev on this many examples, the same ones for every seed.", minimum=1)
    seeds: int = option(1, "Train with this many seeds, from --seed on; the best on dev is kept.", minimum=1)
    grid: str | None = option(None, GRID, choices=("paper",))
    class_weights: str | None = option(None, "balanced: by inverse label frequency.", choices=("balanced",))
    frozen: bool = option(False, "Tagging: train a BiLSTM on the hidden states of a frozen BERT (section 5.3).")
    frozen_layers: str | None = option(None, FROZEN, choices=(*FROZEN_SCORES, "all"), needs="frozen")
    bilstm: bool = option(False, "Put a BiLSTM with new weights between the encoder and the head (Table 5).")
    patience: int | None = option(None, "Stop after this many evaluations without improvement.", minimum=1)
    optimizer: str = option("adamw", OPTIMIZER, choices=OPTIMIZERS)
    span_head: str | None = option(None, SPAN_HEAD, choices=("joint",))
    layer_decay: float | None = option(None, LAYER_DECAY, minimum=0.001, maximum=1)
    baseline: bool = option(True, "Texts with labels or values: also score one answer for all, and a bag of words.")
