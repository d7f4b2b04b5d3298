"""What a task is: its data, labels, metrics and the paper's scores."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Files:
    """The official files of a task, relative to the data folder, and how their columns are laid out.

    A file or a column that goes by several names has them all, with `|` between.
    """

    splits: dict[str, str]  # split -> file
    columns: dict[str, int | str]  # text, text_pair, label, choice0 ... -> column number (of a TSV) or name
    header: bool = True
    test_columns: dict[str, int | str] | None = None  # where the unlabelled test file is laid out otherwise
    label_separator: str = ""  # what stands between the labels of an example that has several


@dataclass(frozen=True)
class Task:
    """A task as values. What differs between kinds of task is code: one function a kind."""

    name: str
    kind: str
    files: Files
    hub: tuple[str, str | None]  # dataset and subset on the Hub
    metrics: tuple[str, ...]  # the first one chooses the best checkpoint
    labels: tuple[str, ...] = ()  # as people read them, in the order of the ids
    file_labels: tuple[str, ...] = ()  # as the files spell them, where they differ
    hub_columns: tuple[str, ...] = ()  # text, text_pair
    hub_splits: dict[str, str] = field(default_factory=lambda: {"train": "train", "dev": "validation", "test": "test"})
    dev_splits: tuple[str, ...] = ("dev",)
    paper: dict[str, dict[str, float]] = field(default_factory=dict)  # split -> "size metric" -> score
    max_seq_length: int = 128
    batch_size: int = 32
    learning_rate: float = 5e-5
    epochs: float = 3.0
    warning: str = ""
    with_impossible: bool = False  # whether a question may have no answer
    learnt_as: str = ""  # the task whose model is scored on this one, which has no training data

    @property
    def spellings(self) -> dict[str, str]:
        """The labels by all the ways in which files spell them; where two meet, the files' own counts."""
        return {label: label for label in self.labels} | dict(zip(self.file_labels, self.labels, strict=False))

    def paper_scores(self, split: str) -> dict[str, float]:
        """The paper's scores for a split, "size metric" -> score; those that it only has for test are of test."""
        return {name: self.paper[known][name] for name, known in self.paper_splits(split).items()}

    def paper_splits(self, split: str) -> dict[str, str]:
        """Which split each of these scores is of."""
        splits = (split.replace("dev", "test"), split)
        return {name: known for known in splits for name in self.paper.get(known, {})}
