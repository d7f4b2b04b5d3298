"""Options of the commands that use a model."""

from dataclasses import dataclass
from itertools import chain

from bertcli.config.options import MAX_SEED, Config, option
from bertcli.config.training import AUTO, PRECISIONS, OwnDataConfig
from bertcli.families.bert import BERT

LAYERS = ("last", "second-to-last", "sum-last-four", "concat-last-four")
POOLING = ("tokens", "cls", "mean")
FILE = "Input file: CSV, TSV, JSONL, Parquet, CoNLL, or a text per line; - reads text or JSONL from standard input."
EXPLAIN = "Show how much each word contributes to the prediction, or the attention weights of each head: {choices}."
EXPORTS = {"onnx": ("float32", "int8"), "safetensors": ("float32", "bfloat16", "float16", "float8")}
EXPORT_PRECISIONS = tuple(dict.fromkeys(chain.from_iterable(EXPORTS.values())))
ENGINES = (TORCH, ONNX, ONNX_INT8, OPENVINO) = ("torch", "onnx", "onnx-int8", "openvino")
ENGINE = "What runs the model: {choices}; all but torch take a graph, which is made once, in the run's folder."
DATA_DIR = "Folder of the official files; default: the run's, else $BERT_DATA, else the Hub."


@dataclass(kw_only=True)
class EvaluateConfig(OwnDataConfig):
    """Options of `bert evaluate`; columns and kind that are not given come from the run."""

    model: list[str] = option([], "Run, folder or Hub name (repeat to compare); default: the latest run of the task.")
    data_dir: str | None = option(None, DATA_DIR)
    split: str = option("dev", "Split to score.")
    predictions: str | None = option(None, "Score this file of predictions; no model is needed.")
    na_probs: str | None = option(None, "SQuAD 2.0: file of their no-answer scores, to find the best threshold.")
    mistakes: int = option(0, "Number of most confident errors to list.", minimum=0)
    precision: str = option("auto", f"{AUTO} (also on a CPU, and for values).", choices=PRECISIONS)
    engine: str = option(TORCH, ENGINE, choices=ENGINES)


@dataclass(kw_only=True)
class PredictConfig(Config):
    """Options of `bert predict`."""

    task: str = option("", "A task (see `bert tasks`), to predict one of its splits.", metavar="TASK")
    data_dir: str | None = option(None, f"With TASK: {DATA_DIR[0].lower()}{DATA_DIR[1:]}", needs="task")
    split: str = option("dev", "With TASK: split to predict.", needs="task")
    text: str | None = option(None, "A text; each [MASK] in it is filled.", is_text=True)
    text_pair: str | None = option(None, "The second text of a pair.", is_text=True)
    choice: list[str] = option([], "A possible continuation of --text; repeat it for each choice.", is_text=True)
    question: str | None = option(None, "A question about --context.", is_text=True)
    context: str | None = option(None, "The text that contains the answer.", is_text=True)
    file: str | None = option(None, FILE)
    output: str | None = option(None, "Output file: CSV, TSV, JSONL (- prints it); SQuAD: predictions.json.")
    only_predictions: bool = option(False, "With --output: leave the columns of the input out.", needs="output")
    model: str | None = option(None, "Run, folder or Hub name; default: the latest run that fits the input.")
    features: str | None = option(None, "Write the hidden states of a text or pair to a .parquet, .npz or .jsonl file.")
    layers: str = option("last", "With --features: {choices}.", choices=LAYERS, needs="features")
    pooling: str = option("tokens", "With --features, the states of: {choices}.", choices=POOLING, needs="features")
    explain: str | None = option(None, EXPLAIN, choices=("words", "attention"), nargs="?")
    explain_page: str | None = option(None, "With --explain: HTML file (attention: attention.html).", needs="explain")
    compare: list[str] = option(
        [], "Texts that contain --word: compare its vectors, layer by layer.", nargs="+", is_text=True
    )
    word: str | None = option(None, "With --compare: the word whose vectors are compared.", needs="compare")
    top_k: int = option(5, "Number of candidates shown per [MASK].", minimum=1)
    precision: str = option("auto", f"{AUTO} (also for values, tiny models, --features on a CPU).", choices=PRECISIONS)
    engine: str = option(TORCH, ENGINE, choices=ENGINES)


@dataclass(kw_only=True)
class SimilarConfig(Config):
    """Options of `bert similar`."""

    file: str | None = option(None, "File to search: CSV, TSV, JSONL, Parquet, or one text per line.")
    text: list[str] = option([], "Text to search for; repeat it for several.", is_text=True)
    texts: str | None = option(None, "File of texts to search for, one per line; - reads standard input.")
    pairs: bool = option(False, "Find near duplicates: pairs of rows with a cosine of at least --threshold.")
    threshold: float = option(0.9, "With --pairs: the minimum cosine.", minimum=-1, maximum=1, needs="pairs")
    top_k: int = option(10, "Number of rows shown per text, or of pairs.", minimum=1)
    text_column: str | None = option(None, "Column of the texts in a table; default: by its name.")
    model: str | None = option(None, "Run, folder or Hub name; default: minilm, else a pre-trained run or model.")
    precision: str = option("float32", "{choices}; auto: bfloat16 on a GPU that supports it.", choices=PRECISIONS)


@dataclass(kw_only=True)
class ReportConfig(Config):
    """Options of `bert report`."""

    runs: list[str] = option([], "Run folders; several are compared; default: the latest.", metavar="RUN...")
    out: str | None = option(None, "Output file; default: report.html in the run's folder; for several, in this one.")


@dataclass(kw_only=True)
class SubmitConfig(Config):
    """Options of `bert submit`."""

    benchmark: str = option("glue", "The leaderboard: {choices}.", metavar="BENCHMARK", choices=("glue",))
    runs: list[str] = option([], "Runs, one per task (MNLI's also for AX); default: the latest.", metavar="RUN...")
    data_dir: str | None = option(None, DATA_DIR)
    out: str = option("submission.zip", "Output file.")


@dataclass(kw_only=True)
class ConvertConfig(Config):
    """Options of `bert convert`."""

    source: str = option("", "A TensorFlow checkpoint (folder or zip file), a run or a model folder.", metavar="SOURCE")
    out: str = option("converted", "Output folder.")
    cased: bool = option(False, "The checkpoint is cased (its files do not say).")


@dataclass(kw_only=True)
class ExportConfig(Config):
    """Options of `bert export`."""

    run: str = option("", "Run, folder or Hub name; default: the latest run.", metavar="RUN")
    format: str = option("onnx", "Form of the weights: {choices}.", choices=EXPORTS)
    precision: str = option(
        "float32", "onnx: float32, int8; safetensors: float32, bfloat16, float16, float8.", choices=EXPORT_PRECISIONS
    )
    data_dir: str | None = option(None, f"With int8, to measure its effect on dev: {DATA_DIR[0].lower()}{DATA_DIR[1:]}")
    out: str | None = option(None, "Output folder; default: FORMAT-PRECISION in the run's folder.")


@dataclass(kw_only=True)
class ServeConfig(Config):
    """Options of `bert serve`."""

    runs: list[str] = option([], "Runs, folders or Hub names; default: the latest run.", metavar="RUN...")
    host: str = option("127.0.0.1", "Address to listen on; by default this machine alone reaches it.")
    port: int = option(8000, "Port; 0 takes a free one.", minimum=0, maximum=65535)
    precision: str = option("auto", f"{AUTO} (also for values, and tiny models on a CPU).", choices=PRECISIONS)
    engine: str = option(TORCH, ENGINE, choices=ENGINES)
    top_k: int = option(5, "Number of candidates per [MASK].", minimum=1)
    max_bytes: int = option(1_000_000, "Maximum size of a request.", minimum=100)
    max_rows: int = option(256, "Maximum number of rows in a request.", minimum=1)
    max_tokens: int = option(32_768, "Maximum number of tokens in a request.", minimum=1)
    max_queue: int = option(512, "Number of requests that may wait; more are refused.", minimum=1)
    timeout_seconds: float = option(30, "Time within which a request arrives and is answered.", minimum=0.001)


@dataclass(kw_only=True)
class DemoConfig(Config):
    """Options of `bert demo`."""

    out: str = option("demo-output", "Output folder; replaced if an earlier demonstration wrote it.")
    size: str = option("tiny", "Model size: {choices}.", choices=BERT.sizes)
    vocab_size: int = option(4000, "Vocabulary size.", minimum=10)
    steps: int = option(800, "Number of pre-training steps.", minimum=1)
    batch_size: int = option(32, "Pre-training instances per step.", minimum=1)
    learning_rate: float = option(2e-3, "Peak learning rate of pre-training.", minimum=0)
    seed: int = option(0, "Random seed.", minimum=0, maximum=MAX_SEED)
