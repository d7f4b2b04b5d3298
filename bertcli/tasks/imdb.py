"""IMDB film reviews (not in the paper; the original's notebook has 86.6 at 128 tokens on a sample)."""

from bertcli.tasks.task import Files, Task

IMDB = Task(
    "imdb",
    "classify",
    Files(
        {
            "train": "imdb/train.csv|imdb/aclImdb/train|imdb/train|imdb/aclImdb_v1.tar.gz/aclImdb/train",
            "dev": "imdb/test.csv|imdb/aclImdb/test|imdb/test|imdb/aclImdb_v1.tar.gz/aclImdb/test",
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
