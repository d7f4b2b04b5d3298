"""SQuAD 1.1 and 2.0 (paper: Tables 2 and 3)."""

from bertcli.tasks.task import Files, Task

SPLITS = {"train": "train", "dev": "validation"}
SQUAD = Task(
    "squad",
    "span",
    Files({"train": "squad/train-v1.1.json", "dev": "squad/dev-v1.1.json"}, {}),
    ("rajpurkar/squad", None),
    ("f1", "exact_match"),
    paper={"dev": {"base exact_match": 80.8, "base f1": 88.5, "large exact_match": 84.1, "large f1": 90.9}},
    hub_splits=SPLITS,
    max_seq_length=384,
)
SQUAD_V2 = Task(
    "squad_v2",
    "span",
    Files({"train": "squad/train-v2.0.json", "dev": "squad/dev-v2.0.json"}, {}),
    ("rajpurkar/squad_v2", None),
    ("f1", "exact_match"),
    paper={"dev": {"large exact_match": 78.7, "large f1": 81.9}, "test": {"large exact_match": 80.0, "large f1": 83.1}},
    hub_splits=SPLITS,
    max_seq_length=384,
    batch_size=48,
    epochs=2.0,
    with_impossible=True,
)
