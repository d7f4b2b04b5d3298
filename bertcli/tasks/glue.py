"""The nine tasks of GLUE and its diagnostic set."""

from typing import Any

from bertcli.tasks.task import Columns, Files, Task

# The rate of the original README's commands; the paper chose among 5e-5, 4e-5, 3e-5 and 2e-5 on dev (section 4.1).
RATE = 2e-5
SENTENCES = ("sentence1", "sentence2")
SPLITS = {"train": "train", "dev": "dev", "test": "test"}  # split -> file
MATCHED = {"train": "train", "dev": "dev_matched", "test": "test_matched"}
MISMATCHED = {"dev_mismatched": "dev_mismatched", "test_mismatched": "test_mismatched"}


def _tsv(
    folder: str,
    columns: Columns,
    test_columns: Columns | None = None,
    splits: dict[str, str] = SPLITS,
    header: bool = True,
) -> Files:
    """The files of a task; those of test have no labels."""
    paths = {
        split: "|".join(f"glue/{folder}/{name}.tsv" for name in names.split("|")) for split, names in splits.items()
    }
    unlabelled = {name: place for name, place in columns.items() if name != "label"}
    return Files(paths, columns, header, test_columns or unlabelled)


def _glue(name: str, files: Files, hub_columns: tuple[str, ...], **more: Any) -> Task:
    """A task of GLUE: classification by accuracy, where nothing else is given."""
    values = {"kind": "classify", "metrics": ("accuracy",), "learning_rate": RATE, **more}
    return Task(name=f"glue/{name}", files=files, hub=("nyu-mll/glue", name), hub_columns=hub_columns, **values)


COLA = _glue(
    "cola",
    _tsv("CoLA", {"text": 3, "label": 1}, {"text": 1}, header=False),
    ("sentence",),
    metrics=("matthews_correlation",),
    labels=("unacceptable", "acceptable"),
    file_labels=("0", "1"),
)
SST2 = _glue(
    "sst2",
    _tsv("SST-2", {"text": 0, "label": 1}, {"text": 1}),
    ("sentence",),
    labels=("negative", "positive"),
    file_labels=("0", "1"),
)
MRPC = _glue(
    "mrpc",
    _tsv("MRPC", {"text": 3, "text_pair": 4, "label": 0}),
    SENTENCES,
    metrics=("f1", "accuracy"),
    labels=("not_equivalent", "equivalent"),
    file_labels=("0", "1"),
)
STSB = _glue(
    "stsb",
    _tsv("STS-B", {"text": 7, "text_pair": 8, "label": 9}),
    SENTENCES,
    kind="regress",
    metrics=("spearmanr", "pearson"),
)
QQP = _glue(
    "qqp",
    _tsv("QQP", {"text": 3, "text_pair": 4, "label": 5}, {"text": 1, "text_pair": 2}),
    ("question1", "question2"),
    metrics=("f1", "accuracy"),
    labels=("not_duplicate", "duplicate"),
    file_labels=("0", "1"),
)
MNLI = _glue(
    "mnli",
    _tsv("MNLI", {"text": "sentence1", "text_pair": "sentence2", "label": "gold_label"}, splits=MATCHED | MISMATCHED),
    ("premise", "hypothesis"),
    labels=("contradiction", "entailment", "neutral"),
    hub_splits={split: file.replace("dev", "validation") for split, file in (MATCHED | MISMATCHED).items()},
    dev_splits=("dev", "dev_mismatched"),
)
QNLI = _glue(
    "qnli",
    _tsv("QNLI", {"text": 1, "text_pair": 2, "label": 3}),
    ("question", "sentence"),
    labels=("entailment", "not_entailment"),
)
RTE = _glue(
    "rte", _tsv("RTE", {"text": 1, "text_pair": 2, "label": 3}), SENTENCES, labels=("entailment", "not_entailment")
)
WNLI = _glue(
    "wnli",
    _tsv("WNLI", {"text": 1, "text_pair": 2, "label": 3}),
    SENTENCES,
    labels=("not_entailment", "entailment"),
    file_labels=("0", "1"),
    warning="The dev set contradicts the training set; the paper leaves WNLI out, and 65.1 is the majority class of test.",
)
# diagnostic.tsv has no labels; diagnostic-full.tsv, from the same authors, has them, and is used if present.
AX = _glue(
    "ax",
    _tsv(
        "diagnostic",
        {"text": "sentence1|Premise", "text_pair": "sentence2|Hypothesis", "label": "Label|label|gold_label"},
        splits={"dev": "diagnostic-full|diagnostic", "test": "diagnostic"},
    ),
    ("premise", "hypothesis"),
    metrics=("matthews_correlation", "accuracy"),
    labels=MNLI.labels,
    hub_splits={"test": "test"},
    learnt_as="glue/mnli",
    warning="It has no training data; models of glue/mnli are scored on it.",
)

GLUE = (COLA, SST2, MRPC, STSB, QQP, MNLI, QNLI, RTE, WNLI, AX)
