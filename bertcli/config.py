"""The options of every command, each declared once: name, type, default and help."""

import types
from dataclasses import MISSING, Field, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, Self, TypeVar, Union, get_args, get_origin, get_type_hints

from bertcli.errors import UserError, unknown

Size = Literal["tiny", "mini", "small", "medium", "base", "large"]
Precision = Literal["auto", "float32", "bfloat16", "float16"]
Optimizer = Literal["bert", "adamw"]
Kind = Literal["classify", "regress", "multilabel", "choose", "tag", "span"]
FrozenLayers = Literal[
    "embeddings", "second-to-last", "last", "weighted-sum-last-four", "concat-last-four", "weighted-sum-all", "all"
]

FeatureLayers = Literal["last", "second-to-last", "sum-last-four", "concat-last-four"]
Pooling = Literal["tokens", "cls", "mean"]
SHIPPED = "bert-books"


def option(default: Any, text: str, *, minimum: float | None = None, maximum: float | None = None, **more: str) -> Any:
    """Declare an option; its field name is the flag, the recipe key and the saved key."""
    metadata = {"help": text, "minimum": minimum, "maximum": maximum, **more}
    if isinstance(default, list):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


def argument(default: Any, text: str, metavar: str) -> Any:
    """Declare the positional argument of a command."""
    return option(default, text, metavar=metavar)


@dataclass(kw_only=True)
class Config:
    """What every command understands."""

    dry_run: bool = option(False, "Say what would be done, check that it can be, and write nothing.")

    def __post_init__(self) -> None:
        """Check every value: type, choice and range.

        Raises:
            UserError: naming the option and what it takes.
        """
        hints = get_type_hints(type(self))
        for declared in fields(self):
            value = _typed(hints[declared.name], getattr(self, declared.name), flag(declared))
            _check_range(declared, value)
            setattr(self, declared.name, value)

    @classmethod
    def build(cls, given: object, options: dict[str, Any]) -> Self:
        """Make the configuration of a core function from a ready one or from its arguments in Python."""
        if isinstance(given, cls):
            return cls.from_values({**asdict(given), **options})
        names = [f.name for f in fields(cls) if "metavar" in f.metadata]
        first = {names[0]: given} if given is not None and names else {}
        return cls.from_values({**first, **options})

    @classmethod
    def from_values(cls, values: dict[str, Any], origin: str = "option") -> Self:
        """Make the configuration from names and values, as a recipe or a saved run spells them."""
        known = {f.name: f for f in fields(cls)}
        named = {}
        for key, value in values.items():
            name = key.replace("-", "_")
            name = name if name in known else f"{name}_"
            if name not in known:
                raise unknown(origin, key, [n.rstrip("_").replace("_", "-") for n in known])
            named[name] = value
        return cls(**named)

    def values(self) -> dict[str, Any]:
        """The resolved values by their public names, ready for a recipe."""
        return {name.rstrip("_"): value for name, value in asdict(self).items() if name != "dry_run"}


@dataclass(kw_only=True)
class BuildVocabConfig(Config):
    """Options of `bert build-vocab`."""

    text: list[str] = argument([], "Text files (may be .gz, .xz, .zst), folders of them, or patterns.", "TEXT...")
    out: str | None = option(None, "Folder to write; default: vocab, or with --add-words the model's name + -words.")
    vocab_size: int = option(30522, "Number of tokens, the special and unused ones included.", minimum=10)
    unused_tokens: int = option(0, "Places kept free for words added later (unused0, unused1, ...).", minimum=0)
    cased: bool = option(False, "Keep upper case and accents.")
    min_frequency: int = option(2, "A piece must occur this often to be merged.", minimum=1)
    limit_alphabet: int = option(1000, "Keep this many characters, the most frequent ones.", minimum=1)
    add_words: str | None = option(None, "Learn nothing; add the words of this file, one a line, to a model.")
    to: str | None = option(None, "With --add-words: a run, a folder or a Hub name; a copy of it gets the words.")


@dataclass(kw_only=True)
class MakePretrainingDataConfig(Config):
    """Options of `bert make-pretraining-data` (defaults of create_pretraining_data.py)."""

    text: list[str] = argument([], "Text files (may be .gz, .xz, .zst), folders of them, or patterns.", "TEXT...")
    tokenizer: str | None = option(None, "Folder, Hub name or vocab.txt; default: the newest vocabulary here.")
    cased: bool = option(False, "Keep upper case (only for a bare vocab.txt; a folder knows its own casing).")
    out: str = option("pretraining-data", "Folder to write.")
    max_seq_length: int = option(128, "Longest instance, in tokens with [CLS] and [SEP].", minimum=5)
    max_predictions_per_seq: int = option(20, "Most masked tokens an instance.", minimum=1)
    masked_lm_prob: float = option(0.15, "Share of tokens masked.", minimum=0, maximum=1)
    dupe_factor: int = option(10, "Passes over the text, each with other splits and masks.", minimum=1)
    short_seq_prob: float = option(0.1, "Share of documents cut to a shorter random length.", minimum=0, maximum=1)
    whole_word_mask: bool = option(False, "Mask all pieces of a word together.")
    masking: Literal["static", "dynamic"] = option(
        "static", "static: masks on disk, as the original; dynamic: drawn anew for each batch."
    )
    next_sentence: bool = option(True, "Make pairs for next-sentence prediction; without: one run of text a row.")
    join_files: bool = option(False, "As the original: only a blank line ends a document, not the end of a file.")
    seed: int = option(12345, "Seed of all draws.", minimum=0)
    shards: int | None = option(None, "Number of shards; default: one for each 8 MB of text.", minimum=1)
    workers: int | None = option(None, "Processes at work; default: one a core. Does not change the result.", minimum=1)
    overwrite: bool = option(False, "Replace data that was made with other options.")


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


ConfigType = TypeVar("ConfigType", bound=Config)


def flag(declared: Field[Any]) -> str:
    """The option's name on the command line: `max_seq_length` is `--max-seq-length`."""
    name = declared.name.rstrip("_").replace("_", "-")
    return str(declared.metadata["metavar"]) if "metavar" in declared.metadata else f"--{name}"


def default_of(declared: Field[Any]) -> Any:
    """The declared default value."""
    return declared.default if declared.default_factory is MISSING else declared.default_factory()


def read_recipe(name: str) -> dict[str, Any]:
    """Read a recipe: a YAML file of option names, by its path or by the name `bert recipes` lists."""
    import yaml

    path = Path(name) if Path(name).exists() else recipes_folder() / f"{name.removesuffix('.yaml')}.yaml"
    if not path.exists():
        raise unknown("recipe", name, recipe_names(), "`bert recipes` lists them.")
    if not path.is_file():
        raise UserError(f"The recipe `{path}` is a folder.", "Name a YAML file, or one that `bert recipes` lists.")
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(
            f"The recipe `{path}` is not YAML: {' '.join(str(error).split())}",
            "See `bert recipes show pretrain/base` for the form.",
        ) from error
    if not isinstance(values, dict):
        raise UserError(
            f"The recipe `{path}` is not a list of `option: value` lines.",
            "See `bert recipes show pretrain/base` for the form.",
        )
    return {str(key): value for key, value in values.items()}


def recipes_folder() -> Path:
    """The recipes that ship: beside the package in a clone, inside it in a wheel."""
    inside = Path(__file__).parent / "_recipes"
    return inside if inside.exists() else Path(__file__).parent.parent / "recipes"


def shipped_model() -> str:
    """The folder of the small BERT that ships, for who has no run."""
    return str(recipes_folder() / SHIPPED)


def recipe_names() -> list[str]:
    """Names of the recipes that ship, such as `glue/mnli`."""
    folder = recipes_folder()
    return sorted(path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.yaml"))


def _typed(hint: Any, value: Any, name: str) -> Any:
    """Return the value as its type, or say what the option takes."""
    if get_origin(hint) in (Union, types.UnionType):
        if value is None:
            return None
        hint = next(part for part in get_args(hint) if part is not type(None))
    if get_origin(hint) is Literal:
        if value not in get_args(hint):
            raise unknown(f"value for {name}:", value, get_args(hint))
        return value
    if get_origin(hint) is list:
        return [str(item) for item in (value if isinstance(value, (list, tuple)) else [value])]
    try:
        return _converted(hint, value)
    except (TypeError, ValueError, OverflowError):
        kind = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}[hint]
        raise UserError(f"{name} takes {kind}, not `{value}`.", f"Give {name} {kind}.") from None


def _converted(hint: type, value: Any) -> Any:
    if hint is bool and not isinstance(value, bool):
        raise TypeError
    if hint is int:
        whole = int(float(value)) if not isinstance(value, int) else value
        if isinstance(value, bool) or float(value) != whole:
            raise ValueError
        return whole
    if hint is str and not isinstance(value, (str, int, float, Path)):
        raise TypeError
    return hint(value)


def _check_range(declared: Field[Any], value: Any) -> None:
    low, high = declared.metadata["minimum"], declared.metadata["maximum"]
    if value is not None and low is not None and not value >= low:
        raise UserError(f"{flag(declared)} is {value}; the least is {low}.", f"Give {flag(declared)} {low} or more.")
    if value is not None and high is not None and not value <= high:
        raise UserError(f"{flag(declared)} is {value}; the most is {high}.", f"Give {flag(declared)} {high} or less.")
