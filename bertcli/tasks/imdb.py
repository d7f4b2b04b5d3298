"""IMDB film reviews (not in the paper)."""

from bertcli.tasks.task import Files, Task

SPLITS = {"train": "train", "dev": "test"}
PLACES = ("imdb/{}.csv", "imdb/aclImdb/{}", "imdb/{}", "imdb/aclImdb_v1.tar.gz/aclImdb/{}")
FILES = {split: "|".join(place.format(name) for place in PLACES) for split, name in SPLITS.items()}
IMDB = Task(
    "imdb",
    "classify",
    Files(FILES, {"text": "text", "label": "label"}),
    ("stanfordnlp/imdb", None),
    ("accuracy",),
    ("negative", "positive"),
    ("neg", "pos"),
    ("text",),
    hub_splits=SPLITS,
    max_seq_length=512,
    batch_size=16,
    learning_rate=2e-5,
)
