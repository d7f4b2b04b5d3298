"""IMDB film reviews (not in the paper)."""

from bertcli.tasks.task import Files, Task

FOLDERS = ("imdb/aclImdb/", "imdb/", "imdb/aclImdb_v1.tar.gz/aclImdb/")
IMDB = Task(
    "imdb",
    "classify",
    Files(
        {
            split: "|".join([f"imdb/{name}.csv", *(f"{folder}{name}" for folder in FOLDERS)])
            for split, name in (("train", "train"), ("dev", "test"))
        },
        {"text": "text", "label": "label"},
    ),
    ("stanfordnlp/imdb", None),
    ("accuracy",),
    ("negative", "positive"),
    ("neg", "pos"),
    ("text",),
    hub_splits={"train": "train", "dev": "test"},
    max_seq_length=512,
    batch_size=16,
    learning_rate=2e-5,
)
