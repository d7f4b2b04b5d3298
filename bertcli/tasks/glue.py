"""The nine tasks of GLUE and its diagnostic set."""

from typing import Any

from bertcli.tasks.task import Columns, Files, Task

# The rate of the original README's commands; the paper chose among 5e-5, 4e-5, 3e-5 and 2e-5 on dev (section 4.1).
RATE = 2e-5
Splits = dict[str, str]  # split -> file
SENTENCES = ("sentence1", "sentence2")
BINARY: dict[str, Any] = {"file_labels": ("0", "1")}  # in the order of the labels
INFERENCES = "entailment not_entailment"
SPLITS = {"train": "train", "dev": "dev", "test": "test"}
MATCHED = {"train": "train", "dev": "dev_matched", "test": "test_matched"}
MISMATCHED = {"dev_mismatched": "dev_mismatched", "test_mismatched": "test_mismatched"}


def _tsv(folder: str, columns: Columns, test: Columns | None = None, splits: Splits = SPLITS, **more: Any) -> Files:
    """The files of a task; those of test have no labels."""
    paths = {split: "|".join(f"glue/{folder}/{name}.tsv" for name in file.split("|")) for split, file in splits.items()}
    unlabelled = {name: place for name, place in columns.items() if name != "label"}
    return Files(paths, columns, test_columns=test or unlabelled, **more)


def _glue(name: str, files: Files, hub_columns: tuple[str, ...], labels: str = "", **more: Any) -> Task:
    """A task of GLUE: classification by accuracy, where nothing else is given."""
    values = {"kind": "classify", "metrics": ("accuracy",), "learning_rate": RATE, **more}
    hub = ("nyu-mll/glue", name)
    return Task(f"glue/{name}", files=files, hub=hub, hub_columns=hub_columns, labels=tuple(labels.split()), **values)


PAIR: Columns = {"text": 1, "text_pair": 2, "label": 3}
F1: dict[str, Any] = {"metrics": ("f1", "accuracy"), **BINARY}
MATTHEWS = "matthews_correlation"

COLA_FILES = _tsv("CoLA", {"text": 3, "label": 1}, {"text": 1}, header=False)
COLA = _glue("cola", COLA_FILES, ("sentence",), "unacceptable acceptable", metrics=(MATTHEWS,), **BINARY)
SST2_FILES = _tsv("SST-2", {"text": 0, "label": 1}, {"text": 1})
SST2 = _glue("sst2", SST2_FILES, ("sentence",), "negative positive", **BINARY)
MRPC_FILES = _tsv("MRPC", {"text": 3, "text_pair": 4, "label": 0})
MRPC = _glue("mrpc", MRPC_FILES, SENTENCES, "not_equivalent equivalent", **F1)
STSB_FILES = _tsv("STS-B", {"text": 7, "text_pair": 8, "label": 9})
STSB = _glue("stsb", STSB_FILES, SENTENCES, kind="regress", metrics=("spearmanr", "pearson"))
QQP_FILES = _tsv("QQP", {"text": 3, "text_pair": 4, "label": 5}, {"text": 1, "text_pair": 2})
QQP = _glue("qqp", QQP_FILES, ("question1", "question2"), "not_duplicate duplicate", **F1)
MNLI = _glue(
    "mnli",
    _tsv("MNLI", {"text": "sentence1", "text_pair": "sentence2", "label": "gold_label"}, splits=MATCHED | MISMATCHED),
    ("premise", "hypothesis"),
    "contradiction entailment neutral",
    hub_splits={split: file.replace("dev", "validation") for split, file in (MATCHED | MISMATCHED).items()},
    dev_splits=("dev", "dev_mismatched"),
)
QNLI = _glue("qnli", _tsv("QNLI", PAIR), ("question", "sentence"), INFERENCES)
RTE = _glue("rte", _tsv("RTE", PAIR), SENTENCES, INFERENCES)
WNLI_WARNING = "Dev contradicts the training set; the paper leaves WNLI out, and 65.1 is the majority class of test."
WNLI = _glue("wnli", _tsv("WNLI", PAIR), SENTENCES, "not_entailment entailment", warning=WNLI_WARNING, **BINARY)
# diagnostic.tsv has no labels; diagnostic-full.tsv, from the same authors, has them, and is used if present.
AX_COLUMNS: Columns = {"text": "sentence1|Premise", "text_pair": "sentence2|Hypothesis"}
AX_COLUMNS |= {"label": "Label|label|gold_label"}
AX_FILES = _tsv("diagnostic", AX_COLUMNS, splits={"dev": "diagnostic-full|diagnostic", "test": "diagnostic"})
AX_WARNING = "It has no training data; models of glue/mnli are scored on it."
AX_USE: dict[str, Any] = {"hub_splits": {"test": "test"}, "learnt_as": "glue/mnli", "warning": AX_WARNING}
AX = _glue("ax", AX_FILES, MNLI.hub_columns, " ".join(MNLI.labels), metrics=(MATTHEWS, "accuracy"), **AX_USE)

GLUE = (COLA, SST2, MRPC, STSB, QQP, MNLI, QNLI, RTE, WNLI, AX)
