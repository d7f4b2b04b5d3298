"""The nine tasks of GLUE and its diagnostic set (paper: Table 1, test scores by the leaderboard; Tables 5 and 6 for dev)."""

from bertcli.tasks.task import Files, Task

# The rate of the original README's commands; the paper chose among 5e-5, 4e-5, 3e-5 and 2e-5 on dev (section 4.1).
RATE = 2e-5


def _splits(folder: str) -> dict[str, str]:
    return {split: f"glue/{folder}/{split}.tsv" for split in ("train", "dev", "test")}


COLA = Task(
    "glue/cola",
    "classify",
    Files(_splits("CoLA"), {"text": 3, "label": 1}, header=False, test_columns={"text": 1}),
    ("nyu-mll/glue", "cola"),
    ("matthews_correlation",),
    ("unacceptable", "acceptable"),
    ("0", "1"),
    ("sentence",),
    paper={"test": {"base matthews_correlation": 52.1, "large matthews_correlation": 60.5}},
    learning_rate=RATE,
)
SST2 = Task(
    "glue/sst2",
    "classify",
    Files(_splits("SST-2"), {"text": 0, "label": 1}, test_columns={"text": 1}),
    ("nyu-mll/glue", "sst2"),
    ("accuracy",),
    ("negative", "positive"),
    ("0", "1"),
    ("sentence",),
    paper={
        "test": {"base accuracy": 93.5, "large accuracy": 94.9},
        "dev": {"base accuracy": 92.7, "large accuracy": 93.7},
    },
    learning_rate=RATE,
)
MRPC = Task(
    "glue/mrpc",
    "classify",
    Files(_splits("MRPC"), {"text": 3, "text_pair": 4, "label": 0}, test_columns={"text": 3, "text_pair": 4}),
    ("nyu-mll/glue", "mrpc"),
    ("f1", "accuracy"),
    ("not_equivalent", "equivalent"),
    ("0", "1"),
    ("sentence1", "sentence2"),
    paper={"test": {"base f1": 88.9, "large f1": 89.3}, "dev": {"base accuracy": 86.7, "large accuracy": 87.8}},
    learning_rate=RATE,
)
STSB = Task(
    "glue/stsb",
    "regress",
    Files(_splits("STS-B"), {"text": 7, "text_pair": 8, "label": 9}, test_columns={"text": 7, "text_pair": 8}),
    ("nyu-mll/glue", "stsb"),
    ("spearmanr", "pearson"),
    (),
    (),
    ("sentence1", "sentence2"),
    paper={"test": {"base spearmanr": 85.8, "large spearmanr": 86.5}},
    learning_rate=RATE,
)
QQP = Task(
    "glue/qqp",
    "classify",
    Files(_splits("QQP"), {"text": 3, "text_pair": 4, "label": 5}, test_columns={"text": 1, "text_pair": 2}),
    ("nyu-mll/glue", "qqp"),
    ("f1", "accuracy"),
    ("not_duplicate", "duplicate"),
    ("0", "1"),
    ("question1", "question2"),
    paper={"test": {"base f1": 71.2, "large f1": 72.1}},
    learning_rate=RATE,
)
MNLI = Task(
    "glue/mnli",
    "classify",
    Files(
        {
            "train": "glue/MNLI/train.tsv",
            "dev": "glue/MNLI/dev_matched.tsv",
            "dev_mismatched": "glue/MNLI/dev_mismatched.tsv",
            "test": "glue/MNLI/test_matched.tsv",
            "test_mismatched": "glue/MNLI/test_mismatched.tsv",
        },
        {"text": "sentence1", "text_pair": "sentence2", "label": "gold_label"},
        test_columns={"text": "sentence1", "text_pair": "sentence2"},
    ),
    ("nyu-mll/glue", "mnli"),
    ("accuracy",),
    ("contradiction", "entailment", "neutral"),
    (),
    ("premise", "hypothesis"),
    hub_splits={
        "train": "train",
        "dev": "validation_matched",
        "dev_mismatched": "validation_mismatched",
        "test": "test_matched",
        "test_mismatched": "test_mismatched",
    },
    dev_splits=("dev", "dev_mismatched"),
    paper={
        "test": {"base accuracy": 84.6, "large accuracy": 86.7},
        "dev": {"base accuracy": 84.4, "large accuracy": 86.6},
        "test_mismatched": {"base accuracy": 83.4, "large accuracy": 85.9},
    },
    learning_rate=RATE,
)
QNLI = Task(
    "glue/qnli",
    "classify",
    Files(_splits("QNLI"), {"text": 1, "text_pair": 2, "label": 3}, test_columns={"text": 1, "text_pair": 2}),
    ("nyu-mll/glue", "qnli"),
    ("accuracy",),
    ("entailment", "not_entailment"),
    (),
    ("question", "sentence"),
    paper={"test": {"base accuracy": 90.5, "large accuracy": 92.7}, "dev": {"base accuracy": 88.4}},
    learning_rate=RATE,
)
RTE = Task(
    "glue/rte",
    "classify",
    Files(_splits("RTE"), {"text": 1, "text_pair": 2, "label": 3}, test_columns={"text": 1, "text_pair": 2}),
    ("nyu-mll/glue", "rte"),
    ("accuracy",),
    ("entailment", "not_entailment"),
    (),
    ("sentence1", "sentence2"),
    paper={"test": {"base accuracy": 66.4, "large accuracy": 70.1}},
    learning_rate=RATE,
)
WNLI = Task(
    "glue/wnli",
    "classify",
    Files(_splits("WNLI"), {"text": 1, "text_pair": 2, "label": 3}, test_columns={"text": 1, "text_pair": 2}),
    ("nyu-mll/glue", "wnli"),
    ("accuracy",),
    ("not_entailment", "entailment"),
    ("0", "1"),
    ("sentence1", "sentence2"),
    warning="The dev set contradicts the training set; the paper leaves WNLI out, and 65.1 is the majority class of test.",
    learning_rate=RATE,
)
# diagnostic.tsv has no labels; diagnostic-full.tsv, from the same authors, has them, and is taken where it is there.
AX = Task(
    "glue/ax",
    "classify",
    Files(
        {
            "dev": "glue/diagnostic/diagnostic-full.tsv|glue/diagnostic/diagnostic.tsv",
            "test": "glue/diagnostic/diagnostic.tsv",
        },
        {"text": "sentence1|Premise", "text_pair": "sentence2|Hypothesis", "label": "Label|label|gold_label"},
        test_columns={"text": "sentence1|Premise", "text_pair": "sentence2|Hypothesis"},
    ),
    ("nyu-mll/glue", "ax"),
    ("matthews_correlation", "accuracy"),
    MNLI.labels,
    (),
    ("premise", "hypothesis"),
    hub_splits={"test": "test"},
    learnt_as="glue/mnli",
    warning="It has no training data; models of glue/mnli are scored on it.",
)

GLUE = (COLA, SST2, MRPC, STSB, QQP, MNLI, QNLI, RTE, WNLI, AX)
