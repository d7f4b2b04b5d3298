"""SQuAD 1.1 and 2.0: questions whose answers are spans of a text."""

from dataclasses import replace

from bertcli.tasks.task import Files, Task

SQUAD = Task(
    "squad",
    "span",
    Files({"train": "squad/train-v1.1.json", "dev": "squad/dev-v1.1.json"}),
    ("rajpurkar/squad", None),
    ("f1", "exact_match"),
    hub_splits={"train": "train", "dev": "validation"},
    max_seq_length=384,
)
FILES_V2, HUB_V2 = Files({"train": "squad/train-v2.0.json", "dev": "squad/dev-v2.0.json"}), ("rajpurkar/squad_v2", None)
SQUAD_V2 = replace(SQUAD, name="squad_v2", files=FILES_V2, hub=HUB_V2, batch_size=48, epochs=2.0, with_impossible=True)
