"""SWAG: which of four endings continues a text (paper: section 4.4)."""

from bertcli.tasks.task import Columns, Files, Task

# `sent2` is the start of every ending: the choices are whole sentences after `sent1`.
ENDINGS: Columns = {f"choice{number}": f"ending{number}" for number in range(4)}
COLUMNS: Columns = {"text": "sent1", "choice_start": "sent2", **ENDINGS}
SPLITS = {"train": "swag/train.csv", "dev": "swag/val.csv|swag/dev.csv", "test": "swag/test.csv"}
SWAG = Task(
    "swag",
    "choose",
    Files(SPLITS, {**COLUMNS, "label": "label"}, test_columns=COLUMNS),
    ("allenai/swag", "regular"),
    ("accuracy",),
    ("0", "1", "2", "3"),
    batch_size=16,
    learning_rate=2e-5,
)
