"""SWAG: which of four endings follows (paper: section 4.4 and Table 4)."""

from bertcli.tasks.task import Files, Task

# `sent2` begins every ending: the choices are whole sentences after `sent1`.
COLUMNS: dict[str, int | str] = {
    "text": "sent1",
    "choice_start": "sent2",
    **{f"choice{number}": f"ending{number}" for number in range(4)},
}
SWAG = Task(
    "swag",
    "choose",
    Files(
        {"train": "swag/train.csv", "dev": "swag/val.csv|swag/dev.csv", "test": "swag/test.csv"},
        {**COLUMNS, "label": "label"},
        test_columns=COLUMNS,
    ),
    ("allenai/swag", "regular"),
    ("accuracy",),
    ("0", "1", "2", "3"),
    paper={"dev": {"base accuracy": 81.6, "large accuracy": 86.6}, "test": {"large accuracy": 86.3}},
    batch_size=16,
    learning_rate=2e-5,
)
