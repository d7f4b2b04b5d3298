"""A task: its data, labels, metrics and defaults."""

from dataclasses import dataclass, field
from functools import cached_property

from bertcli.tasks.paper import scores_of

Columns = dict[str, int | str]  # text, text_pair, label, choice0 ... -> column number (of a TSV) or name


@dataclass(frozen=True)
class Files:
    """The official files of a task, relative to the data folder, and their columns.

    A file or a column that has several names has them all, separated by `|`.
    """

    splits: dict[str, str] = field(default_factory=dict)  # split -> file
    columns: Columns = field(default_factory=dict)
    header: bool = True
    test_columns: Columns | None = None  # where the unlabelled test file has other columns
    label_form: str = ""  # what separates several labels of an example; the first choice, as it is numbered


@dataclass(frozen=True)
class Task:
    """A task as values; what differs between kinds of task is code."""

    name: str
    kind: str
    files: Files
    hub: tuple[str, str | None]  # dataset and subset on the Hub
    metrics: tuple[str, ...]  # the first one chooses the best checkpoint
    labels: tuple[str, ...] = ()  # as people read them, in the order of their ids
    file_labels: tuple[str, ...] = ()  # as the files spell them, where that differs
    hub_columns: tuple[str, ...] = ()  # text, text_pair
    hub_splits: dict[str, str] = field(default_factory=lambda: {"train": "train", "dev": "validation", "test": "test"})
    dev_splits: tuple[str, ...] = ("dev",)
    max_seq_length: int = 128
    batch_size: int = 32
    learning_rate: float = 5e-5
    epochs: float = 3.0
    papers_width: int = 768  # hidden units from which on these settings are those of a paper; BERT's start at base
    warning: str = ""
    with_impossible: bool = False  # whether a question may have no answer
    learnt_as: str = ""  # a task without training data is scored with models of this one

    @property
    def spellings(self) -> dict[str, str]:
        """Every spelling of a label in files -> the label; of two readings, that of the official files counts."""
        return {label: label for label in self.labels} | dict(zip(self.file_labels, self.labels, strict=False))

    @cached_property
    def paper(self) -> dict[str, dict[str, float]]:
        """The paper's scores, split -> "size metric" -> score; none for own data, whatever its name."""
        return scores_of(self.name) if self.hub[0] else {}

    def paper_scores(self, split: str) -> dict[str, float]:
        """The paper's scores for a split, "size metric" -> score; of test, where it has none of dev."""
        return {name: self.paper[known][name] for name, known in self.paper_splits(split).items()}

    def paper_splits(self, split: str) -> dict[str, str]:
        """The split that each of these scores is of."""
        return {name: known for known in (split.replace("dev", "test"), split) for name in self.paper.get(known, {})}


INPUT = Task("input", "", Files(), ("", None), ())  # for inputs of no task; its kind is to be filled in
