"""Every number of the paper (Devlin et al. 2019, arXiv 1810.04805 v2), once; scores are times 100."""

from dataclasses import dataclass

Row = tuple[float | None, ...]


@dataclass(frozen=True)
class PaperTable:
    """A table: its columns, mostly as "task split metric", and a row of scores for each system."""

    title: str
    columns: tuple[str, ...]
    rows: dict[str, Row]


GLUE_COLUMNS = (
    *("glue/mnli test accuracy", "glue/mnli test_mismatched accuracy", "glue/qqp test f1", "glue/qnli test accuracy"),
    *("glue/sst2 test accuracy", "glue/cola test matthews_correlation", "glue/stsb test spearmanr"),
    *("glue/mrpc test f1", "glue/rte test accuracy", "average"),
)
# The second half of Table 7, by layers: dev F1 of a BiLSTM on the hidden states of BERT base, which is frozen.
FROZEN_SCORES = {"embeddings": 91.0, "second-to-last": 95.6, "last": 94.9}
FROZEN_SCORES |= {"weighted-sum-last-four": 95.9, "concat-last-four": 96.1, "weighted-sum-all": 95.5}
TABLES = {
    1: PaperTable(
        "GLUE, scored by the evaluation server",
        GLUE_COLUMNS,
        {
            "Pre-OpenAI SOTA": (80.6, 80.1, 66.1, 82.3, 93.2, 35.0, 81.0, 86.0, 61.7, 74.0),
            "BiLSTM+ELMo+Attn": (76.4, 76.1, 64.8, 79.8, 90.4, 36.0, 73.3, 84.9, 56.8, 71.0),
            "OpenAI GPT": (82.1, 81.4, 70.3, 87.4, 91.3, 45.4, 80.0, 82.3, 56.0, 75.1),
            "BERT base": (84.6, 83.4, 71.2, 90.5, 93.5, 52.1, 85.8, 88.9, 66.4, 79.6),
            "BERT large": (86.7, 85.9, 72.1, 92.7, 94.9, 60.5, 86.5, 89.3, 70.1, 82.1),
        },
    ),
    2: PaperTable(
        "SQuAD 1.1",
        ("squad dev exact_match", "squad dev f1", "squad test exact_match", "squad test f1"),
        {
            "Human": (None, None, 82.3, 91.2),
            "nlnet (ensemble)": (None, None, 86.0, 91.7),
            "QANet (ensemble)": (None, None, 84.5, 90.5),
            "BiDAF+ELMo (single)": (None, 85.6, None, 85.8),
            "R.M. Reader (ensemble)": (81.2, 87.9, 82.3, 88.5),
            "BERT base": (80.8, 88.5, None, None),
            "BERT large": (84.1, 90.9, None, None),
            "BERT large (ensemble)": (85.8, 91.8, None, None),
            "BERT large + TriviaQA": (84.2, 91.1, 85.1, 91.8),
            "BERT large (ensemble) + TriviaQA": (86.2, 92.2, 87.4, 93.2),
        },
    ),
    3: PaperTable(
        "SQuAD 2.0",
        ("squad_v2 dev exact_match", "squad_v2 dev f1", "squad_v2 test exact_match", "squad_v2 test f1"),
        {
            "Human": (86.3, 89.0, 86.9, 89.5),
            "MIR-MRC (F-Net)": (None, None, 74.8, 78.0),
            "nlnet": (None, None, 74.2, 77.1),
            "unet (ensemble)": (None, None, 71.4, 74.9),
            "SLQA+": (None, None, 71.4, 74.4),
            "BERT large": (78.7, 81.9, 80.0, 83.1),
        },
    ),
    4: PaperTable(
        "SWAG",
        ("swag dev accuracy", "swag test accuracy"),
        {
            "ESIM+GloVe": (51.9, 52.7),
            "ESIM+ELMo": (59.1, 59.2),
            "OpenAI GPT": (None, 78.0),
            "BERT base": (81.6, None),
            "BERT large": (86.6, 86.3),
            "Human (expert)": (None, 85.0),
            "Human (5 annotations)": (None, 88.0),
        },
    ),
    5: PaperTable(
        "Pre-training tasks, with the architecture of BERT base",
        (*(f"glue/{task} dev accuracy" for task in ("mnli", "qnli", "mrpc", "sst2")), "squad dev f1"),
        {
            "BERT base": (84.4, 88.4, 86.7, 92.7, 88.5),
            "No NSP": (83.9, 84.9, 86.5, 92.6, 87.9),
            "LTR & No NSP": (82.1, 84.3, 77.5, 92.1, 77.8),
            "LTR & No NSP + BiLSTM": (82.1, 84.1, 75.7, 91.6, 84.9),
        },
    ),
    6: PaperTable(
        "Model size, as layers/hidden units/heads; the mean of 5 fine-tuning runs",
        ("masked-LM perplexity", "glue/mnli dev accuracy", "glue/mrpc dev accuracy", "glue/sst2 dev accuracy"),
        {
            "3/768/12": (5.84, 77.9, 79.8, 88.4),
            "6/768/3": (5.24, 80.6, 82.2, 90.7),
            "6/768/12": (4.68, 81.9, 84.8, 91.3),
            "12/768/12": (3.99, 84.4, 86.7, 92.9),
            "12/1024/16": (3.54, 85.7, 86.9, 93.3),
            "24/1024/16": (3.23, 86.6, 87.8, 93.7),
        },
    ),
    7: PaperTable(
        "CoNLL-2003, fine-tuned and from frozen layers; with document context around each sentence",
        ("conll2003 dev f1", "conll2003 test f1"),
        {
            "ELMo": (95.7, 92.2),
            "CVT": (None, 92.6),
            "CSE": (None, 93.1),
            "BERT base": (96.4, 92.4),
            "BERT large": (96.6, 92.8),
            **{layers: (score, None) for layers, score in FROZEN_SCORES.items()},
        },
    ),
    8: PaperTable(
        "Masking, as percentages of [MASK]/same/random; BERT base, dev; for features the last four layers",
        ("glue/mnli dev accuracy", "conll2003 dev f1", "conll2003 dev f1, feature-based"),
        {
            "80/10/10": (84.2, 95.4, 94.9),
            "100/0/0": (84.3, 94.9, 94.0),
            "80/0/20": (84.1, 95.2, 94.6),
            "80/20/0": (84.4, 95.2, 94.7),
            "0/20/80": (83.7, 94.8, 94.6),
            "0/0/100": (83.6, 94.9, 94.6),
        },
    ),
}

# Figure 5, by the share of 1,000,000 pre-training steps. The text prints the end points (Table 5), and that masked LM gains
# "almost 1.0" from half of the steps on: a point that is read from these words. The other points are not printed.
FIGURE_5 = PaperTable(
    "Dev scores after fine-tuning, by pre-training steps (the paper: MNLI)",
    ("20 %", "40 %", "50 %", "60 %", "80 %", "100 %"),
    {"masked LM": (None, None, 83.4, None, None, 84.4), "left-to-right": (None, None, None, None, None, 82.1)},
)

# Appendix A.3: the fine-tuning settings that work well on all tasks.
FINETUNING_GRID: dict[str, tuple[float, ...]] = {"batch_size": (16, 32), "learning_rate": (5e-5, 3e-5, 2e-5)}
FINETUNING_GRID |= {"epochs": (2, 3, 4)}

SIZES = {"BERT base": "base", "12/768/12": "base", "BERT large": "large", "24/1024/16": "large"}


def scores_of(task: str) -> dict[str, dict[str, float]]:
    """The paper's scores of a task, split -> "size metric" -> score; of two, that of the first table."""
    scores: dict[str, dict[str, float]] = {}
    for table in TABLES.values():
        for system, row in table.rows.items():
            for column, score in zip(table.columns, row, strict=True):
                name, _, where = column.partition(" ")
                if name == task and system in SIZES and score is not None and where.count(" ") == 1:
                    split, metric = where.split(" ")
                    scores.setdefault(split, {}).setdefault(f"{SIZES[system]} {metric}", score)
    return scores
